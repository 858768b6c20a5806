/** A line of a comparison. */
export interface DiffLine {
  readonly kind: "same" | "gone" | "come";
  readonly text: string;
}

/** The removed and added lines that turn one text into another, by their longest common subsequence. */
export function diffLines(before: readonly string[], after: readonly string[]): DiffLine[] {
  const width = after.length + 1;
  const common = new Uint32Array((before.length + 1) * width);
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = after.length - 1; j >= 0; j--)
      common[i * width + j] =
        before[i] === after[j]
          ? (common[(i + 1) * width + j + 1] as number) + 1
          : Math.max(common[(i + 1) * width + j] as number, common[i * width + j + 1] as number);
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      lines.push({ kind: "same", text: before[i] as string });
      i++;
      j++;
    } else if (
      j >= after.length ||
      (i < before.length && (common[(i + 1) * width + j] as number) >= (common[i * width + j + 1] as number))
    )
      lines.push({ kind: "gone", text: before[i++] as string });
    else lines.push({ kind: "come", text: after[j++] as string });
  }
  return lines;
}
