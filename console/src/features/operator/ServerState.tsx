import type { ShownServer } from '#api/operator/overview.ts'
import { State } from '../../parts/State.tsx'

const states = {
  working: { state: 'ok', word: 'working' },
  degraded: { state: 'warn', word: 'degraded' },
  failing: { state: 'danger', word: 'failing' },
  ejected: { state: 'danger', word: 'kept away' },
  disabled: { state: 'off', word: 'switched off' },
  unknown: { state: 'off', word: 'no request lately' },
} as const

/** How a server does, by the attempts of all customers. */
export function ServerState({ state }: { state: ShownServer['state'] }) {
  return <State state={states[state].state}>{states[state].word}</State>
}
