/** What is shown of settings: the URLs of stores and brokers carry passwords, which are nobody's to read. */

/** A URL with its password written as `(secret)`. */
export function withoutPassword(url: string): string {
  return url.replace(/^([a-z][a-z0-9+.-]*:\/\/[^:/@]*):[^@/]*@/i, "$1:(secret)@");
}

/** The same value, with the password of every URL in it written as `(secret)`. */
export function hidePasswords(value: unknown): unknown {
  if (typeof value === "string") return withoutPassword(value);
  if (Array.isArray(value)) return value.map(hidePasswords);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, hidePasswords(one)]));
}
