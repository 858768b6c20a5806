/**
 * The part of a commit about what is replaced in place: timers, marks, snapshots, lease tables. Each (execution,
 * timer) and (execution, mark) is named once, the one to clear or the one to set. Columns as in write-commit.ts.
 */
export const WRITE_MARKS = String.raw`
  CREATE FUNCTION write_marks_1(
    created bigint[],
    tc_e bigint[], tc_timer text, ts_ref bigint[], ts_timer text, ts_due bigint[], ts_partition int[],
    o_ref bigint[], o_mark text, o_tasks bigint[],
    s_ref bigint[], s_seq int[], s_fold_version int[], s_chain text, s_body text,
    lc_e bigint[], l_ref bigint[], l_body text
  ) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    IF tc_e IS NOT NULL THEN
      DELETE FROM timers t USING unnest(tc_e, string_to_array(tc_timer, E'\x1f')) AS c (e, timer)
      WHERE t.e = c.e AND t.timer = coalesce(c.timer, tc_timer);
    END IF;
    IF ts_ref IS NOT NULL THEN
      INSERT INTO timers (e, timer, due, partition)
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, coalesce(timer, ts_timer), due, partition
      FROM unnest(ts_ref, string_to_array(ts_timer, E'\x1f'), ts_due, ts_partition) AS s (ref, timer, due, partition)
      WHERE ref > 0 OR created[-ref] <> 0
      ON CONFLICT (e, timer) DO UPDATE SET due = excluded.due;
    END IF;
    IF o_ref IS NOT NULL THEN
      INSERT INTO opened (e, mark, tasks)
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, coalesce(mark, o_mark), tasks
      FROM unnest(o_ref, string_to_array(o_mark, E'\x1f'), o_tasks) AS o (ref, mark, tasks)
      WHERE ref > 0 OR created[-ref] <> 0
      ON CONFLICT (e, mark) DO UPDATE SET tasks = excluded.tasks;
    END IF;
    IF s_ref IS NOT NULL THEN
      INSERT INTO snapshots (e, seq, fold_version, chain, body)
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, seq, fold_version, coalesce(chain, s_chain),
        coalesce(body, s_body)
      FROM unnest(s_ref, s_seq, s_fold_version, string_to_array(s_chain, E'\x1f'), string_to_array(s_body, E'\x1f'))
        AS s (ref, seq, fold_version, chain, body)
      WHERE ref > 0 OR created[-ref] <> 0
      ON CONFLICT (e) DO UPDATE SET seq = excluded.seq, fold_version = excluded.fold_version,
        chain = excluded.chain, body = excluded.body;
    END IF;
    IF lc_e IS NOT NULL THEN
      DELETE FROM leases WHERE e = ANY (lc_e);
    END IF;
    IF l_ref IS NOT NULL THEN
      INSERT INTO leases (e, body)
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, coalesce(body, l_body)
      FROM unnest(l_ref, string_to_array(l_body, E'\x1f')) AS l (ref, body)
      WHERE ref > 0 OR created[-ref] <> 0
      ON CONFLICT (e) DO UPDATE SET body = excluded.body;
    END IF;
  END
  $$;
`;
