/** The broker of a scenario. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { freePorts } from "../free-ports.ts";
import { LocalRabbit } from "./local-rabbitmq.ts";

/** The broker of RABBITMQ_URL, else a private one in this folder with default settings. */
export async function openRabbit(folder: string): Promise<{ readonly url: string; close(): Promise<void> }> {
  const url = process.env["RABBITMQ_URL"] ?? "";
  if (url !== "") return { url, close: async () => {} };
  const place = join(folder, "rabbitmq");
  mkdirSync(place);
  const [amqp, portMapper, distribution] = (await freePorts(3)) as [number, number, number];
  const rabbit = new LocalRabbit(place, { amqp, portMapper, distribution });
  await rabbit.start();
  return {
    url: rabbit.url,
    close: async () => {
      await rabbit.stop("kill");
      rabbit.kill();
    },
  };
}
