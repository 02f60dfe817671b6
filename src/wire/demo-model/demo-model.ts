import { DEMO_MODEL } from '../../base/domain/offer.ts'
import { systemFingerprint } from './chat-bodies.ts'
import { DemoError } from './demo-error.ts'

/** The only model of the demo upstream. */
export const demoModel = {
  id: DEMO_MODEL,
  ownedBy: systemFingerprint,
  description: 'Demo: a small n-gram model that ships with Switchyard. Real tokens, real streaming, no understanding.',
  contextTokens: 131_072,
  maxOutputTokens: 4_096,
} as const

/** Throws DemoError 404 for any other model. */
export function requireDemoModel(model: string): void {
  if (model === demoModel.id) return
  throw new DemoError(404, `The model \`${model}\` does not exist: the demo upstream has only \`demo\`.`, {
    param: 'model',
    code: 'model_not_found',
  })
}
