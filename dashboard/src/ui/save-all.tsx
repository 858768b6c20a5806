/** A button that reads all pages of a list and saves their rows as a file. */
import { useState } from "preact/hooks";
import type { Page } from "../api/shapes.ts";
import { count } from "../core/format.ts";
import { Button } from "./button.tsx";
import { tell, tellProblem } from "./toast.tsx";

/** The most rows of a file. They are in memory until the file is saved. */
const ROWS_MAX = 100_000;

export function SaveAll<T>({
  label,
  file,
  page,
  write,
}: {
  readonly label: string;
  /** The name of the file. */
  readonly file: string;
  /** Reads the page that a cursor names; null names the first. */
  readonly page: (cursor: string | null) => Promise<Page<T>>;
  /** Returns the text of the file. */
  readonly write: (rows: readonly T[]) => string;
}) {
  const [progress, setProgress] = useState<number | null>(null);
  const save = async (): Promise<void> => {
    const rows: T[] = [];
    let cursor: string | null = null;
    do {
      setProgress(rows.length);
      const { data, next }: Page<T> = await page(cursor);
      rows.push(...data);
      cursor = next;
    } while (cursor !== null && rows.length < ROWS_MAX);
    download(file, write(rows));
    if (cursor !== null)
      tell(
        `The file has the first ${count(rows.length)} rows. rondo events and rondo tasks --limit print all.`,
      );
  };
  return (
    <Button
      isBusy={progress !== null}
      onClick={() => {
        save()
          .catch(tellProblem)
          .finally(() => setProgress(null));
      }}
    >
      {progress === null || progress === 0 ? label : `${label}: ${count(progress)} rows`}
    </Button>
  );
}

/** Saves a text as a file. */
export function download(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
}
