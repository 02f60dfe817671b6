import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { LiveState } from '#api/live.ts'
import type { Overview } from '#api/operator/overview.ts'
import { readWhileVisible } from './event-stream.ts'
import { onGatewayBack } from './gateway-link.ts'
import { overviewQuery } from './operator-queries.ts'
import { creditsQuery } from './queries.ts'
import { readAgain } from './query-client.ts'
import { Rereads, type Timer } from './rereads.ts'
import { signedInAgain } from './signed-in-again.ts'

/** Reads again what changes, as long as the tab is visible. */
export function useLive(customerId: string): void {
  const client = useQueryClient()
  useEffect(() => {
    let state: LiveState | null = null
    const rereads = new Rereads(area => void readAgain(client, { queryKey: [area, customerId] }), browserTimer)
    const end = readWhileVisible<LiveState>(`customers/${customerId}/live`, {
      event: 'state',
      onEvent(now) {
        // Something changed after the screen had read it and before the first state was made. If the credit was read
        // after the change, what was read before the credit is old.
        const shown = client.getQueryState(creditsQuery(customerId).queryKey)
        if (state === null && shown?.data !== undefined) {
          const isCurrent = shown.data.balance_usd === now.balance_usd
          void readAgain(client, {
            predicate: ({ queryKey, state: { dataUpdatedAt } }) =>
              queryKey[1] === customerId && !(isCurrent && dataUpdatedAt >= shown.dataUpdatedAt),
          })
        }
        const { byRequests, byPeople } = changesBetween(state, now)
        for (const area of byRequests) rereads.plan(area, sums.has(area) ? SUMS_MS : REREAD_MS)
        for (const area of byPeople) rereads.plan(area, REREAD_MS)
        state = now
      },
      // The balance is on every screen: reading it again shows whether the gateway is away.
      onBroken: () => void client.invalidateQueries({ queryKey: ['credits', customerId] }),
      onBack() {
        void readAgain(client)
        void onGatewayBack()
      },
      onSessionEnded: signal => signedInAgain(client, signal),
    })
    return () => {
      rereads.end()
      end()
    }
  }, [client, customerId])
}

/** How often at most an area is read again. */
const REREAD_MS = 2_000
/** How often at most the areas are read again that sum over many rows, while requests go on. */
const SUMS_MS = 10_000
const sums: ReadonlySet<string> = new Set(['usage', 'key-spend', 'people'])

const browserTimer: Timer = {
  nowMs: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

interface Changes {
  /** The areas that the last requests have changed. */
  readonly byRequests: readonly string[]
  /** The areas that people have changed. */
  readonly byPeople: readonly string[]
}

/** What a screen reads again when the state differs in this respect. */
function changesBetween(before: LiveState | null, now: LiveState): Changes {
  if (before === null) return { byRequests: [], byPeople: [] }
  const isNewer = before.newest_request_id !== now.newest_request_id || before.requests_today !== now.requests_today
  const isOtherBalance = before.balance_usd !== now.balance_usd
  const topics = Object.entries(now.versions).filter(
    ([topic, version]) => before.versions[topic as keyof LiveState['versions']] !== version,
  )
  return {
    byRequests: isNewer ? ['activity', 'credits', ...sums] : isOtherBalance ? ['credits'] : [],
    byPeople: topics.flatMap(([topic]) => areasOfTopic[topic] ?? [topic]),
  }
}

const areasOfTopic: Readonly<Record<string, readonly string[]>> = {
  budgets: ['key-spend', 'people', 'usage'],
  keys: ['keys', 'key-spend'],
}

/** Shows the operator's overview as it changes, as long as the tab is visible. */
export function useLiveOverview(): void {
  const client = useQueryClient()
  useEffect(
    () =>
      readWhileVisible<Overview>('operator/live', {
        event: 'overview',
        onEvent: overview => client.setQueryData(overviewQuery.queryKey, overview),
        onBroken: () => void client.invalidateQueries({ queryKey: overviewQuery.queryKey }),
        onBack() {
          void readAgain(client)
          void onGatewayBack()
        },
        onSessionEnded: signal => signedInAgain(client, signal),
      }),
    [client],
  )
}
