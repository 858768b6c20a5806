/**
 * Computes the configuration. A flag overrides the environment, which overrides the file, which overrides the default. Every
 * given value is checked.
 */
import { basename, dirname, relative, resolve } from "node:path";
import { anything, decode, object, refusal } from "../std/decode.ts";
import { isRejection, RondoError } from "../std/rejection.ts";
import { type ConfigFile, type LoadModule, readConfigFile } from "./config-file.ts";
import type { Setting } from "./setting.ts";
import { type Config, SETTINGS, type SettingName } from "./settings.ts";

/** The origin of a setting's value. */
export type Origin =
  | { readonly kind: "flag"; readonly name: string }
  | { readonly kind: "environment"; readonly name: string }
  | { readonly kind: "file"; readonly name: string }
  | { readonly kind: "default" };

export interface LoadedConfig {
  readonly config: Config;
  readonly origins: Readonly<Record<SettingName, Origin>>;
  /** The absolute path of the configuration file; null if there is none. */
  readonly file: string | null;
}

export interface ConfigSource {
  /** Values of flags by name; undefined means not given. */
  readonly flags: Readonly<Record<string, unknown>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly loadModule: LoadModule;
}

/** Reads and checks all settings. Throws a `RondoError` that names the setting and its origin. */
export async function loadConfig(source: ConfigSource): Promise<LoadedConfig> {
  const named = source.env["RONDO_CONFIG"] || undefined;
  const file = await readConfigFile({ cwd: source.cwd, named, loadModule: source.loadModule });
  if (file !== null) refuseUnknown(file);
  const config: Record<string, unknown> = {};
  const origins: Record<string, Origin> = {};
  for (const [name, setting] of Object.entries(SETTINGS) as [SettingName, Setting<unknown>][]) {
    const [value, origin] = await settle(name, setting, { source, file });
    config[name] = value;
    origins[name] = origin;
  }
  return {
    config: config as unknown as Config,
    origins: origins as Record<SettingName, Origin>,
    file: file?.path ?? null,
  };
}

/** The origin of a setting's value, as text for error messages. */
export function showOrigin(origin: Origin): string {
  switch (origin.kind) {
    case "flag":
      return `flag --${origin.name}`;
    case "environment":
      return `environment ${origin.name}`;
    case "file":
      return `file ${origin.name}`;
    case "default":
      return "default";
  }
}

function refuseUnknown(file: ConfigFile): void {
  const known = Object.entries(SETTINGS).filter(([, { inFile }]) => inFile);
  const unknown = refusal(object(Object.fromEntries(known.map(([name]) => [name, anything]))), file.fields);
  if (unknown === null) return;
  const { env } = (SETTINGS as Record<string, Setting<unknown>>)[unknown.path ?? ""] ?? {};
  throw new RondoError({
    ...unknown,
    message: `${basename(file.path)}: ${unknown.message}`,
    ...(env === undefined
      ? {}
      : { hint: `this setting is not allowed in a file: set ${env} in the environment` }),
  });
}

/** Returns the value with the strongest origin. Values of weaker origins are checked too. */
async function settle(
  name: SettingName,
  setting: Setting<unknown>,
  { source, file }: { source: ConfigSource; file: ConfigFile | null },
): Promise<[value: unknown, origin: Origin]> {
  let value = setting.fallback;
  let origin: Origin = { kind: "default" };
  const fromFile = setting.inFile ? file?.fields[name] : undefined;
  if (file !== null && fromFile !== undefined) {
    const fileName = basename(file.path);
    value = await decoded(setting, fromFile, `${fileName}: ${name}`);
    const folder = dirname(file.path);
    if (folder !== source.cwd)
      value = setting.rebase?.(value, (path) => relative(source.cwd, resolve(folder, path)) || ".") ?? value;
    origin = { kind: "file", name: fileName };
  }
  const fromEnv = setting.env === undefined ? undefined : source.env[setting.env] || undefined;
  if (setting.env !== undefined && fromEnv !== undefined) {
    value = await decoded(setting, fromEnv, setting.env);
    origin = { kind: "environment", name: setting.env };
  }
  const fromFlag = setting.flag === undefined ? undefined : source.flags[setting.flag];
  const isGiven = fromFlag !== undefined && !(Array.isArray(fromFlag) && fromFlag.length === 0);
  if (setting.flag !== undefined && isGiven) {
    value = await decoded(setting, fromFlag, `--${setting.flag}`);
    origin = { kind: "flag", name: setting.flag };
  }
  return [value, origin];
}

/**
 * Decodes the value of a setting. `path` names the setting and its origin. An error about a secret does not contain the secret.
 */
async function decoded(setting: Setting<unknown>, value: unknown, path: string): Promise<unknown> {
  const found = decode(await setting.decoder(), value, { path });
  if (!isRejection(found)) return found;
  throw new RondoError(
    setting.isSecret === true ? { ...found, message: `${found.path}: has a wrong value` } : found,
  );
}
