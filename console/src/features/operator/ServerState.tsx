import { t } from '@lingui/core/macro'
import type { ShownServer } from '#api/operator/overview.ts'
import { State } from '../../parts/State.tsx'

const states = {
  working: { state: 'ok', word: t`working` },
  degraded: { state: 'warn', word: t`degraded` },
  failing: { state: 'danger', word: t`failing` },
  ejected: { state: 'danger', word: t`kept away` },
  disabled: { state: 'off', word: t`switched off` },
  unknown: { state: 'off', word: t`no request lately` },
} as const

/** How a server does, by the attempts of all customers. */
export function ServerState({ state }: { state: ShownServer['state'] }) {
  return <State state={states[state].state}>{states[state].word}</State>
}
