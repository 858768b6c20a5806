/** Sends the starts of many executions to a server, in requests of a bounded size. The answers are in the order of the starts. */
import { checkStart } from "../protocol/check-request.ts";
import type { StartOptions } from "../sdk/handle.ts";
import { validateInput } from "../sdk/validate-input.ts";
import type { AnyWorkflow } from "../sdk/workflow.ts";
import type { StartManyAnswer } from "../server/schemas/execution.ts";
import { defined } from "../std/defined.ts";
import { isRejection, type Rejection, type RejectionCode, reject } from "../std/rejection.ts";
import type { Requester } from "./requester.ts";

/** A checked start as JSON text, with its project. All starts of one request have the same project. */
export interface StartText {
  readonly project: string;
  readonly text: string;
}

/** The answer to one start. */
export type StartAnswer = { readonly id: string; readonly existed: boolean } | Rejection;

/** The limits of one request, which are far below those of the server. */
const STARTS_MAX = 1_000;
const CHARS_MAX = 1_000_000;
/** The most requests that are open at a time: the server can read one while it stores the other. */
const REQUESTS_MAX = 2;

/**
 * Checks one start in the way in which `start` does. `newId` is used if the start has no id, so that a repeated request finds the same
 * execution.
 */
export async function startText(
  workflow: Pick<AnyWorkflow, "inputSchema">,
  input: unknown,
  options: StartOptions,
  newId: string,
): Promise<StartText | Rejection> {
  const checked = checkStart(options);
  if (isRejection(checked)) return checked;
  const text = await validateInput(workflow, input);
  if (isRejection(text)) return text;
  const { id = newId, project, tags, startAt, deadline, ifExists } = checked;
  const hasTags = Object.keys(tags).length > 0;
  const rest = JSON.stringify({ id, ...(hasTags ? { tags } : {}), startAt, deadline, ifExists });
  return { project, text: `{"input":${text},${rest.slice(1)}` };
}

/** Sends starts. A start that was rejected before is not sent; its rejection has its place in the result. */
export async function sendStarts(
  requester: Requester,
  workflow: string,
  starts: readonly (StartText | Rejection)[],
): Promise<readonly StartAnswer[]> {
  const answers: StartAnswer[] = starts.map((start) =>
    isRejection(start) ? start : reject("not_ready", "the server did not answer this start"),
  );
  const batches = inBatches(starts);
  const lane = async (): Promise<void> => {
    for (let batch = batches.shift(); batch !== undefined; batch = batches.shift()) {
      const { project, places, texts } = batch;
      const head = JSON.stringify({ workflow, project }).slice(0, -1);
      const { data } = await requester.json<StartManyAnswer>("/v1/executions/batch", {
        method: "POST",
        text: `${head},"starts":[${texts.join(",")}]}`,
        isRepeatable: true,
      });
      places.forEach((place, i) => {
        const answer = data[i];
        if (answer !== undefined) answers[place] = "error" in answer ? rejectionOf(answer.error) : answer;
      });
    }
  };
  await Promise.all(Array.from({ length: REQUESTS_MAX }, lane));
  return answers;
}

interface Batch {
  readonly project: string;
  readonly places: number[];
  readonly texts: string[];
}

function inBatches(starts: readonly (StartText | Rejection)[]): Batch[] {
  const batches: Batch[] = [];
  let batch: Batch | undefined;
  let chars = 0;
  starts.forEach((start, place) => {
    if (isRejection(start)) return;
    const { project, text } = start;
    const isFull = batch === undefined || batch.texts.length >= STARTS_MAX || chars + text.length > CHARS_MAX;
    if (batch === undefined || isFull || batch.project !== project) {
      batch = { project, places: [], texts: [] };
      batches.push(batch);
      chars = 0;
    }
    batch.places.push(place);
    batch.texts.push(text);
    chars += text.length;
  });
  return batches;
}

type AnsweredError = Extract<StartManyAnswer["data"][number], { error: unknown }>["error"];

function rejectionOf({ code, message, hint, path }: AnsweredError): Rejection {
  return reject(code as RejectionCode, message, defined({ hint, path }));
}
