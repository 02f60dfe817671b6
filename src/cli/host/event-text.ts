import type { AgentEvent } from '../../market/agent/run-agent.ts'
import type { Json } from '../output.ts'

/** An event as a line for people. */
export function eventText(event: AgentEvent): string {
  switch (event.event) {
    case 'connected':
      return 'Connected to a node of the gateway.'
    case 'disconnected':
      return `The connection to a node ended (${event.reason}). Connecting again.`
    case 'unreachable':
      return `The gateway cannot be reached: ${sentence(event.reason)} Trying again in ${Math.ceil(event.retryMs / 1000)} s.`
    case 'state':
      return event.state === 'open' ? 'Taking requests.' : `Taking no requests: ${sentence(event.reason ?? '')}`
    case 'draining':
      return 'Stopping: running requests end, new ones are refused.'
    case 'earnings':
      return `Earned: ${event.todayUsd} USD today, ${event.totalUsd} USD in total.`
    case 'models':
      return modelsText(event.models)
  }
}

const sentence = (text: string) => (text.endsWith('.') ? text : `${text}.`)

function modelsText({ served, not_served }: Extract<AgentEvent, { event: 'models' }>['models']): string {
  return [
    ...served.map(
      ({ id, model, input_usd, output_usd }) =>
        `Serving ${id} as ${model}: ${input_usd} in, ${output_usd} out (USD per million tokens).`,
    ),
    ...not_served.map(({ id, reason }) => `Not serving ${id}: ${reason}.`),
  ].join('\n')
}

/** An event for programs, with the keys of other JSON output. */
export function eventJson(event: AgentEvent): Json {
  switch (event.event) {
    case 'unreachable':
      return { event: event.event, reason: event.reason, retry_ms: Math.round(event.retryMs) }
    case 'earnings':
      return { event: event.event, today_usd: event.todayUsd, total_usd: event.totalUsd }
    case 'models':
      return { event: event.event, served: event.models.served, not_served: event.models.not_served }
    default:
      return { ...event }
  }
}
