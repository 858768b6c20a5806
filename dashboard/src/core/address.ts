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
