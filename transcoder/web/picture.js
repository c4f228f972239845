// <kept-picture path="/v1/…">: a picture of the service, fetched when it comes into sight. An <img> alone sends no key.
import { keyHeaders } from "./api.js";

const sight = new IntersectionObserver(
  (entries) => entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => target.load()),
  { rootMargin: "200px" },
);

class KeptPicture extends HTMLElement {
  static observedAttributes = ["path"];

  connectedCallback() {
    sight.observe(this);
  }

  disconnectedCallback() {
    sight.unobserve(this);
  }

  attributeChangedCallback() {
    this.shown = null;
    this.replaceChildren();
    if (!this.isConnected) return;
    // a new target is told of at once, also when it is in sight already
    sight.unobserve(this);
    sight.observe(this);
  }

  async load() {
    const path = this.getAttribute("path");
    if (!path || this.shown === path) return;
    this.shown = path;
    const response = await fetch(path, { headers: keyHeaders() }).catch(() => null);
    if (!response?.ok || this.shown !== path) return;
    const address = URL.createObjectURL(await response.blob());
    const image = new Image();
    // words beside it say what it is of
    image.alt = "";
    image.onload = image.onerror = () => URL.revokeObjectURL(address);
    image.src = address;
    if (this.shown === path) this.replaceChildren(image);
  }
}

customElements.define("kept-picture", KeptPicture);
