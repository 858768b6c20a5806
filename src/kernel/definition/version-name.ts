/**
 * References to a version of a workflow: `NAME@VERSION`. A store keeps the definition of each version under such a name. The
 * newest definition is also kept under the plain name. Names of workflows cannot contain an `@`.
 */
const MARK = "@";

/** The pattern of a workflow's name, or of a reference to one of its versions. */
export const REFERENCE_PATTERN = /^[A-Za-z][A-Za-z0-9_-]{0,39}(?:@\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]{1,80})?)?$/;

/**
 * Returns the name under which a version of a workflow is stored; the plain name if there is no version. The build part of a version
 * (`+...`) is left out.
 */
export function versionedName(name: string, version: string | undefined): string {
  return version === undefined ? name : `${name}${MARK}${version.split("+")[0]}`;
}

/** Whether a name refers to one version of a workflow. */
export function isVersionedName(name: string): boolean {
  return name.includes(MARK);
}

/** Splits a reference into the name of the workflow and the version; the version is null if there is none. */
export function splitVersionedName(reference: string): {
  readonly name: string;
  readonly version: string | null;
} {
  const at = reference.indexOf(MARK);
  return at < 0
    ? { name: reference, version: null }
    : { name: reference.slice(0, at), version: reference.slice(at + 1) };
}
