/** What is shown of settings: the URLs of stores and brokers carry passwords, which are nobody's to read. */

/** The same value, with the password of every URL in it written as `(secret)`. */
export function hidePasswords(value: unknown): unknown {
  if (typeof value === "string")
    return value.replace(/^([a-z][a-z0-9+.-]*:\/\/[^:/@]*):[^@/]*@/i, "$1:(secret)@");
  if (Array.isArray(value)) return value.map(hidePasswords);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, hidePasswords(one)]));
}
