/**
 * Puts the head of an execution, and its timers, as they follow from its journal, if that still ends where it was read
 * to (`p_end`; null: not asked). The partition is locked against commits, so what is written is never older than what a
 * commit has written. `p_dues` null: timers stay. Those of the engine, which begin with ~, stay in any case. `p_tasks` null:
 * marks stay. The head has the phase then, so the last row of the journal names none (phases-in-journal.ts).
 */
export const PUT_DERIVED = String.raw`
  CREATE FUNCTION put_derived_1(
    p_generation text, p_lock int, p_id text, p_partition int, p_end bigint, p_workflow text, p_hash text,
    p_project text, p_status text, p_phase text, p_want text, p_priority int, p_created bigint, p_finished bigint,
    p_tags text, p_error text, p_timers text, p_dues bigint[],
    p_marks text, p_tasks bigint[]
  ) RETURNS boolean LANGUAGE plpgsql AS $$
  DECLARE
    found bigint;
  BEGIN
    PERFORM pg_advisory_xact_lock(p_lock, p_partition);
    PERFORM check_generation_1(p_generation);
    SELECT e INTO found FROM executions WHERE id = p_id;
    IF found IS NULL THEN
      RETURN false;
    END IF;
    IF p_end IS NOT NULL AND p_end IS DISTINCT FROM (
      SELECT seq + count - 1 FROM journal WHERE e = found ORDER BY seq DESC LIMIT 1
    ) THEN
      RETURN false;
    END IF;
    UPDATE executions SET partition = p_partition, workflow = p_workflow, hash = p_hash, project = p_project,
      status = p_status, phase = p_phase, want = p_want, priority = p_priority, created_at = p_created,
      finished_at = p_finished, tags = p_tags, error = p_error
    WHERE e = found;
    IF p_end IS NOT NULL THEN
      UPDATE journal SET phase = NULL
      WHERE e = found AND phase IS NOT NULL AND seq = (SELECT seq FROM journal WHERE e = found ORDER BY seq DESC LIMIT 1);
    END IF;
    UPDATE timers SET partition = p_partition WHERE e = found AND partition <> p_partition;
    IF p_dues IS NOT NULL THEN
      DELETE FROM timers WHERE e = found AND (timer < '~' OR timer >= E'\x7f');
      INSERT INTO timers (e, due, partition, timer)
      SELECT found, due, p_partition, timer
      FROM unnest(string_to_array(p_timers, E'\x1f'), p_dues) AS t (timer, due) WHERE due IS NOT NULL;
    END IF;
    IF p_tasks IS NOT NULL THEN
      DELETE FROM opened WHERE e = found;
      INSERT INTO opened (e, mark, tasks)
      SELECT found, mark, tasks FROM unnest(string_to_array(p_marks, E'\x1f'), p_tasks) AS m (mark, tasks)
      WHERE tasks IS NOT NULL;
    END IF;
    RETURN true;
  END
  $$;
`;
