/**
 * References to a version of a workflow: `NAME@VERSION`. A store keeps the definition of each version under such a name, beside
 * the newest definition, which has the plain name. The names of workflows have no `@`.
 */
const MARK = "@";

/** The name of a workflow, or a reference to one of its versions. */
export const REFERENCE_PATTERN = /^[A-Za-z][A-Za-z0-9_-]{0,39}(?:@\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]{1,80})?)?$/;

/** The name of a version of a workflow; the plain name if there is no version. A build (`+...`) is left out. */
export function versionedName(name: string, version: string | undefined): string {
  return version === undefined ? name : `${name}${MARK}${version.split("+")[0]}`;
}

/** Whether a name refers to one version of a workflow. */
export function isVersionedName(name: string): boolean {
  return name.includes(MARK);
}

/** The name of the workflow in a reference, and the version; null if the reference has none. */
export function splitVersionedName(reference: string): {
  readonly name: string;
  readonly version: string | null;
} {
  const at = reference.indexOf(MARK);
  return at < 0
    ? { name: reference, version: null }
    : { name: reference.slice(0, at), version: reference.slice(at + 1) };
}
