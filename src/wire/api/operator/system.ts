import { z } from 'zod'
import { codedSentences } from '../coded-sentences.ts'
import { overview } from './overview.ts'

/** The answer of `GET /console/api/operator/system`. */
export const operatorSystem = z
  .object({
    version: z.string().describe('Of the node that answers.'),
    nodes: overview.shape.nodes,
    checks: z
      .array(
        z.object({
          check: z.string(),
          state: z.enum(['ok', 'warning', 'failed']),
          detail: z.string(),
          detail_codes: codedSentences,
        }),
      )
      .describe('What the command `doctor` checks of the database. It also checks the machine and every server.'),
    jobs: z.array(
      z.object({
        name: z.string(),
        waiting: z.int(),
        running: z.int(),
        failed: z.int().describe('Given up after the last attempt.'),
        last_error: z.string().nullable(),
        last_run_at: z
          .string()
          .nullable()
          .describe('When the schedule last started it; null for jobs without a schedule.'),
      }),
    ),
    settings: z
      .array(z.object({ key: z.string(), value: z.string() }))
      .describe('The configuration of the node that answers, without secrets.'),
  })
  .meta({ id: 'OperatorSystem' })
export type OperatorSystem = z.infer<typeof operatorSystem>
