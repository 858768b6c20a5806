/** Hides passwords in settings that are shown: the URLs of stores and brokers contain them. */

/** The text that is shown in place of a secret. */
export const HIDDEN = "(secret)";

/** Hides the password of every URL in a text: before the host, and in its parameters. */
export function withoutPassword(text: string): string {
  return text
    .replace(/(\b[a-z][a-z0-9+.-]*:\/\/[^\s:/?#@,]*):[^\s/?#,]*@/gi, `$1:${HIDDEN}@`)
    .replace(/([?&](?:password|token|secret)=)[^\s&#,]*/gi, `$1${HIDDEN}`);
}

export function isSecretName(name: string): boolean {
  return /secret|token|password/i.test(name);
}

/** Copies the value, with the passwords of URLs and all fields with secret names hidden. */
export function hidePasswords(value: unknown): unknown {
  if (typeof value === "string") return withoutPassword(value);
  if (Array.isArray(value)) return value.map(hidePasswords);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [
      key,
      typeof one === "string" && isSecretName(key) ? HIDDEN : hidePasswords(one),
    ]),
  );
}
