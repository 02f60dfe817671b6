import { readFileSync } from 'node:fs'
import { type Mutation, mutated } from './mutations.ts'

/** The statement that replaces the SQL function in which the bug is planted. Throws when the bug is not in a function. */
export function plantSql(mutation: Mutation): string {
  const source = readFileSync(new URL(`../${mutation.file}`, import.meta.url), 'utf8')
  const planted = mutated(mutation, source)
  const at = source.indexOf(mutation.find)
  const [begin, create] = CREATE.map(text => [planted.lastIndexOf(text, at), text] as const).reduce((a, b) =>
    a[0] > b[0] ? a : b,
  )
  const end = planted.indexOf(END, at)
  if (begin === -1 || end === -1) throw new Error(`${mutation.id}: its \`find\` text is not in a function`)
  return `CREATE OR REPLACE FUNCTION ${planted.slice(begin + create.length, end + END.length)}`
}

const CREATE = ['CREATE FUNCTION ', 'CREATE OR REPLACE FUNCTION '] as const
/** The end of a function body and of the statement. */
const END = '$$;'
