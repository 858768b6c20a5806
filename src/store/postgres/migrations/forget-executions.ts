/**
 * Forgets executions in two steps, so that no transaction is long.
 * 1. Of those that have ended and are this owner's, the row and all that is found by it go, and the number is noted.
 *    From here on they do not exist, and their ids are free.
 * 2. Journal, logs and dead letters of the noted numbers go, so many rows at a time; answers how many went. Several
 *    nodes can sweep at once.
 */
export const FORGET_EXECUTIONS = String.raw`
  CREATE FUNCTION forget_executions_1(
    p_lock int, p_generation text, p_owner text, p_ids text, p_partitions int[]
  ) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    gone bigint[];
  BEGIN
    PERFORM pg_advisory_xact_lock_shared(p_lock, partition)
    FROM (SELECT DISTINCT unnest(p_partitions) AS partition ORDER BY 1) AS touched;
    PERFORM check_generation_1(p_generation);
    WITH deleted AS (
      DELETE FROM executions x
      WHERE id = ANY (string_to_array(p_ids, E'\x1f')) AND finished_at IS NOT NULL
        AND EXISTS (SELECT FROM partitions r WHERE r.partition = x.partition AND r.owner = p_owner)
      RETURNING e
    )
    SELECT array_agg(e) INTO gone FROM deleted;
    IF gone IS NULL THEN
      RETURN;
    END IF;
    DELETE FROM snapshots WHERE e = ANY (gone);
    DELETE FROM timers WHERE e = ANY (gone);
    DELETE FROM opened WHERE e = ANY (gone);
    DELETE FROM leases WHERE e = ANY (gone);
    INSERT INTO purged SELECT unnest(gone);
  END
  $$;

  CREATE FUNCTION sweep_purged_1(p_rows int) RETURNS int LANGUAGE plpgsql AS $$
  DECLARE
    swept bigint;
    total int := 0;
    went int;
  BEGIN
    FOR swept IN SELECT e FROM purged ORDER BY e FOR UPDATE SKIP LOCKED LOOP
      DELETE FROM journal WHERE ctid = ANY (
        ARRAY(SELECT ctid FROM journal WHERE e = swept LIMIT p_rows - total)
      );
      GET DIAGNOSTICS went = ROW_COUNT;
      total := total + went;
      DELETE FROM logs WHERE ctid = ANY (ARRAY(SELECT ctid FROM logs WHERE e = swept LIMIT p_rows - total));
      GET DIAGNOSTICS went = ROW_COUNT;
      total := total + went;
      DELETE FROM dead_letters WHERE ctid = ANY (
        ARRAY(SELECT ctid FROM dead_letters WHERE e = swept LIMIT p_rows - total)
      );
      GET DIAGNOSTICS went = ROW_COUNT;
      total := total + went;
      EXIT WHEN total >= p_rows;
      DELETE FROM purged WHERE e = swept;
      total := total + 1;
      EXIT WHEN total >= p_rows;
    END LOOP;
    RETURN total;
  END
  $$;
`;
