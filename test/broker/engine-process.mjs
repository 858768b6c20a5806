// A process with an engine and a broker that starts one execution, tells its id, and lives until it is killed.
import { createJiti } from "jiti";

const { store, broker, prefix, phases } = JSON.parse(process.argv[2]);
const jiti = createJiti(import.meta.url);
const { openRondo } = await jiti.import("../../src/index.ts");
const { described } = await jiti.import("./described.ts");
const settings = { broadcastMs: 300, lookMs: 200 };
const rondo = await openRondo({
  store,
  broker,
  prefix,
  brokerSettings: settings,
  settings: { heartbeatMs: 1_000 },
});
const { id } = await rondo.start(described("flow", phases), null);
process.send({ id });
setInterval(() => {}, 1_000);
