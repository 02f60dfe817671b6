import { readFileSync } from 'node:fs'
import { type Mutation, mutated } from './mutations.ts'

/** The statement that replaces the SQL function in which the bug is planted. Throws when the bug is not in a function. */
export function plantSql(mutation: Mutation): string {
  const source = readFileSync(new URL(`../${mutation.file}`, import.meta.url), 'utf8')
  const planted = mutated(mutation, source)
  const at = source.indexOf(mutation.find)
  const begin = planted.lastIndexOf(CREATE, at)
  const end = planted.indexOf(END, at)
  if (begin === -1 || end === -1) throw new Error(`${mutation.id}: its \`find\` text is not in a function`)
  return planted.slice(begin, end + END.length)
}

const CREATE = 'CREATE OR REPLACE FUNCTION '
/** The end of a function body and of the statement. */
const END = '$$;'
