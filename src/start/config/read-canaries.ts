import { readFileSync } from 'node:fs'
import * as z from 'zod'
import type { OwnCanary } from '../../base/domain/own-canary.ts'
import { systemErrorText } from '../../base/runtime/error-message.ts'
import { keyPath } from '../../base/runtime/key-path.ts'
import { type ConfigProblem, readYaml } from './read-yaml.ts'
import { text, wholeNumber } from './values.ts'

const canarySchema = z
  .strictObject({
    prompt: text(),
    system: text().optional(),
    answer: text().optional(),
    any_of: z.array(text()).min(1, 'must have at least one answer').optional(),
    max_tokens: wholeNumber(1, 4_096).prefault('200'),
    models: z.array(text()).min(1, 'must name at least one model').optional(),
  })
  .refine(({ answer, any_of }) => (answer === undefined) !== (any_of === undefined), 'needs answer or any_of')

const fileSchema = z.strictObject({ canaries: z.array(canarySchema).min(1, 'must have at least one canary') })

/**
 * Reads the file of `trust.canaries_file`. Adds to `problems` and returns nothing when it cannot be used: an operator
 * who relies on prompts of its own must learn that there are none. The messages repeat no prompt.
 */
export function readCanaries(path: string, problems: ConfigProblem[]): readonly OwnCanary[] {
  const where = path
  let written: string
  try {
    written = readFileSync(path, 'utf8')
  } catch (error) {
    problems.push({ where, line: null, key: null, message: `cannot be read: ${systemErrorText(error)}` })
    return []
  }
  const file = readYaml(written, where, {})
  problems.push(...file.problems)
  if (file.problems.length > 0) return []
  const { data, error } = fileSchema.safeParse(file.value ?? {})
  for (const { path: key, code, message } of error?.issues ?? []) {
    const text = code === 'invalid_type' ? 'is missing or of the wrong kind' : message
    problems.push({ where, line: file.lineOf(key), key: keyPath(key) || null, message: text })
  }
  return (data?.canaries ?? []).map(({ prompt, system, answer, any_of: anyOf, max_tokens, models }) => ({
    prompt,
    system,
    models,
    maxTokens: max_tokens,
    answers: answer === undefined ? anyOf! : [answer],
  }))
}
