import { type ChannelModel, connect } from "amqplib";
import { showBroker, whyNoConnection } from "../protocol/broker-address.ts";

/** What a broker says of itself, if it lets us in and takes messages; what is wrong is thrown. */
export async function checkBroker(url: string): Promise<string> {
  const connection = await connect(url, { timeout: 5_000 }).catch((thrown: unknown) => {
    throw new Error(whyNoConnection(url, thrown), { cause: thrown });
  });
  // An error is thrown by the call that meets it. After the connection was given up, its heartbeat still times out.
  connection.on("error", () => {});
  const { product, version } = connection.connection.serverProperties;
  const blocked = new Promise<string>((resolve) => connection.on("blocked", resolve));
  const refusal = await Promise.race([blocked, takes(connection).then(() => null)]);
  if (refusal === null) await connection.close();
  // It does not read any more, not even that we go.
  else hangUp(connection);
  if (refusal !== null) throw new Error(`the broker at ${showBroker(url)} takes no messages: ${refusal}`);
  return `${product} ${version}`;
}

/** Whether it takes messages is told only to those who send one: this one is for nobody. */
async function takes(connection: ChannelModel): Promise<void> {
  const channel = await connection.createConfirmChannel();
  channel.publish("", "rondo.check.nobody", Buffer.from("{}"));
  await channel.waitForConfirms();
}

/** Ends the connection from below. */
export function hangUp(connection: ChannelModel): void {
  (connection.connection as unknown as { readonly stream: { destroy(): void } }).stream.destroy();
}
