import type { ShownServer } from '#api/operator/overview.ts'
import { State } from '../../parts/State.tsx'

const states = {
  open: { state: 'ok', word: 'in use' },
  probing: { state: 'warn', word: 'trying again' },
  ejected: { state: 'danger', word: 'kept away' },
  unused: { state: 'off', word: 'unused' },
} as const

/** Whether the breaker of a server lets requests through. */
export function ServerState({ state }: { state: ShownServer['state'] }) {
  return <State state={states[state].state}>{states[state].word}</State>
}
