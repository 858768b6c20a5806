import { connect } from "amqplib";

/** What a broker says of itself, if it lets us in; what is wrong is thrown. */
export async function checkBroker(url: string): Promise<string> {
  const connection = await connect(url, { timeout: 5_000 });
  const { product, version } = connection.connection.serverProperties;
  await connection.close();
  return `${product} ${version}`;
}
