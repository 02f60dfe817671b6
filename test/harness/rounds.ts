const { SWITCHYARD_TEST_ROUNDS, SWITCHYARD_PLANTED_BUG, SWITCHYARD_PLANTED_SQL_BUGS } = process.env
const areAllWanted =
  SWITCHYARD_TEST_ROUNDS === 'all' || (SWITCHYARD_PLANTED_BUG ?? SWITCHYARD_PLANTED_SQL_BUGS) !== undefined

/**
 * How many of the random cases of a long property `npm test` tries: a third, and every one with SWITCHYARD_TEST_ROUNDS=all. The cases are the
 * same in each run, so the others seldom find what these do not.
 */
export function rounds(all: number): number {
  return areAllWanted ? all : Math.ceil(all / 3)
}
