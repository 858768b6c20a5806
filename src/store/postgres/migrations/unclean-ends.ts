/**
 * Each partition remembers when its unclean epochs ended, as pairs of an epoch and a time. The lease of an owner says that;
 * its row goes with the next renewal of any node, so the end of a lease is kept for a day. A partition also remembers
 * since which epoch all owners have taken it by this function: those store what they give out of limits.
 */
export const UNCLEAN_ENDS = String.raw`
  ALTER TABLE partitions
    ADD COLUMN unclean_ends bigint[] NOT NULL DEFAULT '{}',
    ADD COLUMN limits_epoch bigint NOT NULL DEFAULT 0,
    ADD COLUMN limits_from bigint NOT NULL DEFAULT 1;

  CREATE TABLE node_ends (
    incarnation text COLLATE "C" PRIMARY KEY,
    ended_at bigint NOT NULL
  );

  CREATE FUNCTION keep_node_end_1() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO node_ends (incarnation, ended_at) VALUES (OLD.incarnation, least(OLD.lease_until, now_ms_1()))
    ON CONFLICT DO NOTHING;
    DELETE FROM node_ends WHERE ended_at < now_ms_1() - 86400000;
    RETURN OLD;
  END
  $$;

  CREATE TRIGGER keep_node_end AFTER DELETE ON nodes FOR EACH ROW EXECUTE FUNCTION keep_node_end_1();

  CREATE FUNCTION take_partitions_2(p_lock int, p_generation text, p_owner text, p_partitions int[])
  RETURNS TABLE (
    taken int, taken_epoch bigint, taken_unclean_epoch bigint, taken_unclean_ends text, taken_limits_from bigint
  )
  LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_advisory_xact_lock(p_lock, partition)
    FROM (SELECT unnest(p_partitions) AS partition ORDER BY 1) AS wanted;
    PERFORM check_generation_1(p_generation);
    RETURN QUERY
      UPDATE partitions
      SET epoch = epoch + 1, unclean_epoch = CASE WHEN clean THEN unclean_epoch ELSE epoch END, clean = false,
        owner = p_owner,
        limits_epoch = epoch + 1,
        limits_from = CASE WHEN limits_epoch = epoch THEN limits_from ELSE epoch + 1 END,
        unclean_ends = CASE WHEN clean THEN unclean_ends ELSE
          unclean_ends[greatest(1, cardinality(unclean_ends) - 61):] || ARRAY[epoch, least(now_ms_1(), coalesce(
            (SELECT lease_until FROM nodes WHERE incarnation = owner),
            (SELECT ended_at FROM node_ends WHERE incarnation = owner),
            now_ms_1()
          ))]
        END
      WHERE partition = ANY (p_partitions)
        AND (owner IS NULL OR owner = p_owner OR NOT EXISTS (
          SELECT FROM nodes WHERE incarnation = owner AND lease_until > now_ms_1()
        ))
        AND EXISTS (SELECT FROM nodes WHERE incarnation = p_owner AND lease_until > now_ms_1())
      RETURNING partition, epoch, unclean_epoch, array_to_string(unclean_ends, ' '), limits_from;
  END
  $$;
`;
