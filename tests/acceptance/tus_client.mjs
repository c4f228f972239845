// node tus_client.mjs ENDPOINT FILE STOP_AFTER: uploads with tus-js-client; dies as soon as STOP_AFTER bytes went (0: never).
import { createReadStream, statSync } from "node:fs";
import { join } from "node:path";
import { FileUrlStorage, Upload } from "tus-js-client";

const [endpoint, path, stopAfter] = process.argv.slice(2);
const upload = new Upload(createReadStream(path), {
  endpoint,
  uploadSize: statSync(path).size,
  chunkSize: 1 << 20,
  metadata: { filename: "über.mov" },
  retryDelays: Array(60).fill(1000),
  urlStorage: new FileUrlStorage(join(process.cwd(), "uploads.json")),
  fingerprint: async () => `fingerprint of ${path}`,
  onProgress: (sent) => console.log("sent", sent),
  onChunkComplete: (_, accepted) => {
    console.log("accepted", accepted);
    if (Number(stopAfter) && accepted >= Number(stopAfter)) process.exit(9);
  },
  onError: (error) => {
    console.error(String(error));
    process.exit(1);
  },
  onSuccess: () => console.log("done", upload.url),
});
const before = await upload.findPreviousUploads();
if (before.length > 0) upload.resumeFromPreviousUpload(before[0]);
upload.start();
