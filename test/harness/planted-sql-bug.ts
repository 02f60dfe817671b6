import { plantSql } from '../../sim/plant-sql.ts'
import { sqlMutations } from '../../sim/sql-mutations.ts'

let planted: string | undefined

/** Sets the id of the bug of sim/sql-mutations.ts that new test databases get. Undefined: none. */
export function plantInNewDatabases(id: string | undefined): void {
  planted = id
}

/** The statement that plants the bug in a new database. */
export function plantingStatement(): string | undefined {
  const bug = sqlMutations.find(({ id }) => id === planted)
  return bug && plantSql(bug)
}
