import { z } from 'zod'
import { codedSentences } from '../coded-sentences.ts'
import { reason } from '../hosters.ts'
import { parseStrictBody } from '../strict-body.ts'

export const operatorSettings = z
  .object({
    version: z.int().describe('0: nothing is managed yet.'),
    reason: z.string().nullable(),
    changed_at: z.string().nullable(),
    fields: z.array(
      z.object({
        key: z.string().describe('As in switchyard.yaml, such as `routing.attempts_max`.'),
        about: z.string().describe('What it does.'),
        about_codes: codedSentences,
        type: z.string().describe('What it must be.'),
        choices: z.array(z.string()).nullable(),
        value: z.string().nullable(),
        fallback: z.string().nullable().describe('Without a file and without a change. Null: it has none.'),
        origin: z
          .enum(['file', 'managed', 'default'])
          .describe('`file`: switchyard.yaml of the node that answers declares it, so it is changed there.'),
        moves_money: z.boolean().describe('It is changed at `settings/money`.'),
      }),
    ),
  })
  .meta({ id: 'OperatorSettings' })
export type OperatorSettings = z.infer<typeof operatorSettings>

export const writtenSettings = z.object({ version: z.int() }).meta({ id: 'WrittenSettings' })
export type WrittenSettings = z.infer<typeof writtenSettings>

const changesText = 'an object of settings by their keys, with texts, numbers, true, false, or null for the default'
const versionText = 'the version that was read, a whole number'
const settingsChange = z.strictObject(
  {
    version: z.int({ error: versionText }).min(0, { error: versionText }),
    changes: z.record(
      z.string(),
      z.union([z.string().max(1_000), z.number(), z.boolean(), z.null()], { error: changesText }),
      { error: changesText },
    ),
    reason,
  },
  { error: 'a JSON object' },
)

/** Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`. */
export const parseSettingsChange = (body: Buffer) => parseStrictBody(body, settingsChange, 'a change of settings')
