import { z } from 'zod'
import { codedSentences } from '../coded-sentences.ts'

export const setupStepNames = ['mail', 'payments', 'provider', 'backups', 'tls'] as const

/** The answer of `GET /console/api/operator/setup`. */
export const setupReport = z
  .object({
    steps: z.array(
      z.object({
        step: z.enum(setupStepNames),
        is_done: z.boolean(),
        detail: z.string().describe('What was found.'),
        detail_codes: codedSentences,
        todo: z.string().nullable().describe('What to do where no page does it; null for a step that is done.'),
        todo_codes: codedSentences,
        link: z.string().nullable().describe('The page where it is done.'),
        has_test: z.boolean(),
      }),
    ),
  })
  .meta({ id: 'OperatorSetup' })
export type SetupReport = z.infer<typeof setupReport>

export const setupTest = z
  .object({
    is_working: z.boolean(),
    detail: z.string().describe('What the test found.'),
    detail_codes: codedSentences,
  })
  .meta({ id: 'OperatorSetupTest' })
export type SetupTest = z.infer<typeof setupTest>
