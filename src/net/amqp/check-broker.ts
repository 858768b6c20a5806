import { type ChannelModel, connect } from "amqplib";
import { showBroker, whyNoConnection } from "../../protocol/broker-address.ts";
import { hangUp } from "./socket.ts";

/**
 * Connects to a broker and returns its product and version; throws if the broker refuses the connection or accepts no messages.
 */
export async function checkBroker(url: string): Promise<string> {
  const connection = await connect(url, { timeout: 5_000 }).catch((thrown: unknown) => {
    throw new Error(whyNoConnection(url, thrown), { cause: thrown });
  });
  // The error event is ignored, because the call that failed throws the same error. A destroyed connection may also emit an
  // error later, when its heartbeat times out.
  connection.on("error", () => {});
  const { product, version } = connection.connection.serverProperties;
  const blocked = new Promise<string>((resolve) => connection.on("blocked", resolve));
  const refusal = await Promise.race([blocked, publishOne(connection).then(() => null)]);
  if (refusal === null) await connection.close();
  // A blocked broker reads nothing, so it would not answer a request to close the connection.
  else hangUp(connection);
  if (refusal !== null) throw new Error(`the broker at ${showBroker(url)} takes no messages: ${refusal}`);
  return `${product} ${version}`;
}

/** Publishes a message that is routed to no queue: a broker tells only publishers that it is blocked. */
async function publishOne(connection: ChannelModel): Promise<void> {
  const channel = await connection.createConfirmChannel();
  channel.publish("", "rondo.check.nobody", Buffer.from("{}"));
  await channel.waitForConfirms();
}
