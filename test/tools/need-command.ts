/** Programs that tests need besides Node: found on the PATH, else installed where that is possible. */
import { spawnSync } from "node:child_process";

/** True if the command is there, by installing its Debian package if need be. With CI=true a lack of it is an error. */
export function needCommand(command: string, debianPackage: string): boolean {
  if (isThere(command)) return true;
  const canInstall = process.getuid?.() === 0 && isThere("apt-get");
  if (canInstall) {
    console.warn(`${command} is not here: installing ${debianPackage} with apt-get`);
    spawnSync("apt-get", ["update", "-qq"], { stdio: "ignore" });
    spawnSync("apt-get", ["install", "-y", "-qq", "--no-install-recommends", debianPackage], {
      stdio: "ignore",
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    });
    if (isThere(command)) return true;
  }
  const lack = `${command} is not here and could not be installed (Debian package ${debianPackage})`;
  if (process.env["CI"] === "true") throw new Error(lack);
  console.warn(`NOT RUN: ${lack}`);
  return false;
}

function isThere(command: string): boolean {
  return spawnSync(command, ["--version"], { stdio: "ignore" }).error === undefined;
}
