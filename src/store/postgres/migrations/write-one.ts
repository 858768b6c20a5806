/**
 * The SQL function `write_one_1`, which nodes of earlier builds on the same database call; one-row.ts has the statements that
 * replace it. It commits one execution that appends one journal row, behind the fence. It does what `write_commit_2` does for such a
 * write, in about half of the server's time, because it has scalars instead of columns and one statement after the lock.
 *
 * It takes the shared lock of the partition first. The statement after that has a new snapshot, so it sees an owner that took
 * the partition before. `p_e` is null for a new execution; `p_status` is null if the head stays. The result is the number of
 * the execution. The result is null, and nothing is written, if the fence refuses the write, or if the id of a new execution
 * exists; `write_commit_2` then finds the reason.
 */
export const WRITE_ONE = String.raw`
  CREATE FUNCTION write_one_1(
    p_lock int, p_generation text, p_owner text, p_partition int, p_epoch bigint,
    p_e bigint, p_seq int, p_count int, p_at bigint, p_chain text, p_body text, p_row_phase text,
    p_id text, p_workflow text, p_hash text, p_project text, p_created_at bigint,
    p_status text, p_phase text, p_want text, p_priority int, p_finished_at bigint, p_tags text, p_error text
  ) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    -- An expression, since it is evaluated without a query of its own.
    is_locked boolean := pg_advisory_xact_lock_shared(p_lock, p_partition) IS NULL;
    written bigint;
  BEGIN
    IF p_status IS NULL THEN
      INSERT INTO journal (e, seq, count, at, chain, body, phase)
      SELECT p_e, p_seq, p_count, p_at, p_chain, p_body, p_row_phase
      FROM partitions r, meta m
      WHERE r.partition = p_partition AND r.epoch = p_epoch AND r.owner = p_owner AND m.generation = p_generation
      RETURNING e INTO written;
    ELSIF p_e IS NULL THEN
      WITH made AS (
        INSERT INTO executions (e, id, partition, epoch, workflow, hash, project, status, phase, want, priority,
          created_at, finished_at, tags, error)
        SELECT nextval('executions_e'), p_id, p_partition, p_epoch, p_workflow, p_hash, p_project, p_status, p_phase,
          p_want, p_priority, p_created_at, p_finished_at, p_tags, p_error
        FROM partitions r, meta m
        WHERE r.partition = p_partition AND r.epoch = p_epoch AND r.owner = p_owner AND m.generation = p_generation
          AND (SELECT true FROM executions x WHERE x.id = p_id LIMIT 1) IS NULL
        RETURNING e
      )
      INSERT INTO journal (e, seq, count, at, chain, body, phase)
      SELECT e, p_seq, p_count, p_at, p_chain, p_body, p_row_phase FROM made
      RETURNING e INTO written;
    ELSE
      WITH changed AS (
        UPDATE executions x
        SET epoch = p_epoch, status = p_status, phase = p_phase, want = p_want, priority = p_priority,
          finished_at = p_finished_at, tags = p_tags, error = p_error
        FROM partitions r, meta m
        WHERE x.e = p_e
          AND r.partition = p_partition AND r.epoch = p_epoch AND r.owner = p_owner AND m.generation = p_generation
        RETURNING x.e
      )
      INSERT INTO journal (e, seq, count, at, chain, body, phase)
      SELECT e, p_seq, p_count, p_at, p_chain, p_body, p_row_phase FROM changed
      RETURNING e INTO written;
    END IF;
    RETURN written;
  END
  $$;
`;
