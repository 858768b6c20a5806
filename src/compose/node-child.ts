/** The process of a further engine node of `openRondo({ nodes })`. It hosts no code. Its parent sends it the options. */
import { openServer, type ServerOptions } from "./compose-server.ts";
import { untilOrphaned } from "./node-processes.ts";

process.once("message", ({ options }: { readonly options: ServerOptions }) => {
  void openNode(options);
});

async function openNode(options: ServerOptions): Promise<void> {
  const server = await openServer({ ...options, port: 0 });
  let isClosing = false;
  const close = (): void => {
    if (isClosing) return;
    isClosing = true;
    void server.close().then(() => process.exit(0));
  };
  process.on("SIGTERM", close);
  // Ctrl-C in a terminal reaches all processes; the parent decides when its nodes close.
  process.on("SIGINT", () => {});
  untilOrphaned(close);
  process.send?.({ kind: "ready", url: server.url });
}
