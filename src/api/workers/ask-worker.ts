/** Asks a worker's own status API about an attempt that has gone silent, before it counts as lost. */
import { HttpConnection } from "../../http/http-connection.ts";
import { HttpFault } from "../../http/http-fault.ts";

const ASK_MS = 2_000;
const ANSWER_BYTES_MAX = 65_536;

/** Whether the worker says that it still has the attempt; one that does not answer in time does not. */
export async function askWorker(url: string, attempt: string): Promise<boolean> {
  const connection = new HttpConnection({ address: url, answerBytesMax: ANSWER_BYTES_MAX });
  try {
    const path = `/attempts/${encodeURIComponent(attempt)}`;
    const { status } = await connection.send({ method: "GET", path, timeoutMs: ASK_MS });
    return status === 200;
  } catch (thrown) {
    if (!(thrown instanceof HttpFault)) throw thrown;
    return false;
  } finally {
    connection.close();
  }
}
