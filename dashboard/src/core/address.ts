/** Query parameters of an address; those without a value are left out. */
export type Choices = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** Makes an address with query parameters. */
export function addressOf(path: string, choices: Choices = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(choices))
    if (value !== null && value !== undefined && value !== "") search.set(name, String(value));
  const text = search.toString();
  return text === "" ? path : `${path}?${text}`;
}

/** Decodes a percent-encoded part of an address; null if it is not valid. */
export function decoded(part: string): string | null {
  try {
    return decodeURIComponent(part);
  } catch (thrown) {
    if (thrown instanceof URIError) return null;
    throw thrown;
  }
}

/** The address of an execution's page. */
export function executionPage(id: string, choices: Choices = {}): string {
  return addressOf(`/executions/${encodeURIComponent(id)}`, choices);
}
