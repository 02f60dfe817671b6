import { z } from 'zod'
import { reason } from '../hosters.ts'
import { parseStrictBody } from '../strict-body.ts'

/** The answer of `POST /console/api/operator/config/reload`. */
export const reloadedConfig = z
  .object({
    file: z.string().nullable().describe('The path of the file. Null: there is none, so the defaults apply.'),
    changes: z
      .array(z.object({ path: z.string(), before: z.unknown(), after: z.unknown() }))
      .describe('What differs since the file was last read and needs no restart, without keys.'),
    keys_replaced: z.array(z.string()).describe('The endpoints with other keys.'),
    needs_restart: z.array(z.string()).describe('Other settings that differ from those at the start.'),
  })
  .meta({ id: 'ReloadedConfig' })
export type ReloadedConfig = z.infer<typeof reloadedConfig>

const reload = z.strictObject({ reason }, { error: 'a JSON object' })

/** Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`. */
export const parseConfigReload = (body: Buffer) => parseStrictBody(body, reload, 'a reload of the configuration')
