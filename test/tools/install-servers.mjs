// Installs the servers and the browser that tests run for real, all in one go before the tests begin: several test files at once would
// stand in each other's way. Where apt-get is not there or may not be used, each test says what it lacks.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

const wanted = [
  ["postgresql", "/usr/lib/postgresql"],
  ["pgbouncer", "/usr/sbin/pgbouncer"],
  ["rabbitmq-server", "/usr/lib/rabbitmq"],
  ["redis-server", "/usr/bin/redis-server"],
  ["python3-pika", "/usr/lib/python3/dist-packages/pika"],
  ["chromium", "/usr/bin/chromium"],
];
const missing = wanted.filter(([, path]) => !existsSync(path)).map(([name]) => name);
const canInstall = process.getuid?.() === 0 && existsSync("/usr/bin/apt-get");
if (missing.length > 0 && canInstall) {
  console.log(`installing ${missing.join(", ")} with apt-get`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  spawnSync("apt-get", ["update", "-qq"], { stdio: "ignore", env });
  const args = ["install", "-y", "-qq", "--no-install-recommends", ...missing];
  const { status } = spawnSync("apt-get", args, { stdio: ["ignore", "ignore", "inherit"], env });
  if (status !== 0) console.warn(`apt-get ended with ${status}: each test that lacks something says so`);
}
