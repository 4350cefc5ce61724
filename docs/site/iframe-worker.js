// Browsers start no workers for pages of the file system: there, a hidden frame runs the search instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      window.addEventListener("message", (event) => {
        if (event.source !== this.frame.contentWindow) return;
        const received = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(received);
        if (this.onmessage) this.onmessage(received);
      });
      this.waiting = [];
      this.frame.addEventListener("load", () => {
        for (const message of this.waiting.splice(0)) this.send(message);
        this.waiting = null;
      });
      this.frame.srcdoc = `<script>
        // A worker's postMessage has no target; a frame's goes to its page.
        window.postMessage = (message) => parent.postMessage(message, "*");
        window.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((loaded) => {
          const script = document.createElement("script");
          script.src = url;
          script.onload = loaded;
          document.head.append(script);
        })), Promise.resolve());
      </script><script src="${new URL(url, document.baseURI)}"></script>`;
    }

    send(message) {
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: message }));
    }

    postMessage(message) {
      if (this.waiting) this.waiting.push(message);
      else this.send(message);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
