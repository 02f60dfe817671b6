import { readFileSync } from 'node:fs'
import * as z from 'zod'
import { type AutoTable, autoFeatures } from '../../base/domain/auto-table.ts'
import { systemErrorText } from '../../base/runtime/error-message.ts'
import { keyPath } from '../../base/runtime/key-path.ts'
import type { ConfigProblem } from './read-yaml.ts'

const tableSchema = z.strictObject({
  version: z.literal(1),
  features: z.tuple(autoFeatures.map(name => z.literal(name)) as [z.ZodLiteral, ...z.ZodLiteral[]]),
  models: z.record(
    z.string(),
    z.strictObject({ bias: z.number(), weights: z.array(z.number()).length(autoFeatures.length) }),
  ),
})

/**
 * Reads the file of `routing.auto.model_file`, which `npm run bench:auto` writes. Adds to `problems` and returns null
 * when it cannot be used: a gateway must not start with another choice than the operator asked for.
 */
export function readAutoTable(path: string, problems: ConfigProblem[]): AutoTable | null {
  const problem = (key: string | null, message: string) => problems.push({ where: path, line: null, key, message })
  let written: unknown
  try {
    written = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    problem(null, error instanceof SyntaxError ? 'is not JSON' : `cannot be read: ${systemErrorText(error)}`)
    return null
  }
  const { data, error } = tableSchema.safeParse(written)
  for (const { path: key, message } of error?.issues ?? []) problem(keyPath(key), message)
  return data ? { models: data.models } : null
}
