// The API's description, to read and to try.
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  syntaxHighlight: { theme: "nord" },
  requestInterceptor: (request) => {
    const key = sessionStorage.getItem("transcoder.key");
    if (key && !request.headers.Authorization) request.headers.Authorization = `Bearer ${key}`;
    return request;
  },
});
