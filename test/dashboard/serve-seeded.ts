// A server with something to look at: `npx jiti test/dashboard/serve-seeded.ts [port] [--busy] [--empty]`.
import { setTimeout as pause } from "node:timers/promises";
import { openServer } from "../../src/compose/compose-server.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { seed, thumbnails } from "../fixtures/dashboard/seeds-fixture.ts";

const flags = process.argv.slice(2);
const server = await openServer({ port: Number(flags[0] ?? 0), store: new MemoryStore() });
console.log(server.url);
if (!flags.includes("--empty")) await seed(server);
for (let i = 0; flags.includes("--busy"); i++) {
  await server.rondo.start(thumbnails, { count: 400 + ((i * 137) % 900), ms: 40 }, { id: `live-${i}` });
  await pause(1_500 + ((i * 731) % 2_500));
}
