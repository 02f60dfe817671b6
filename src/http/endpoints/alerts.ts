import type { Alerts } from '../../alerts/alerts.ts'
import {
  alertDeliveries,
  alertList,
  alertRequest,
  createdAlert,
  deletedAlert,
  parseAlertRequest,
  showAlert,
  showDeliveries,
  testedAlert,
} from '../../api/alerts.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../receive-body.ts'

/** GET and POST /v1/alerts, and what can be done with one alert rule. */
export function alertEndpoints(deps: { alerts: Alerts; bodyLimitBytes: number }): Endpoint[] {
  const { alerts } = deps
  const json = (
    schema: typeof alertList | typeof createdAlert | typeof deletedAlert | typeof testedAlert | typeof alertDeliveries,
    description: string,
  ) => ({ contentType: 'application/json', schema, description }) as const
  return [
    {
      method: 'GET',
      path: '/v1/alerts',
      access: 'key',
      isReport: true,
      doc: {
        operationId: 'listAlerts',
        summary: 'Your alert rules',
        tag: 'Alerts',
        response: json(alertList, 'The rules, oldest first.'),
      },
      async handle({ caller }) {
        const rules = await alerts.list(caller)
        const targetShown = caller.access.mayManage ? 'whole' : 'origin'
        return { object: 'list', data: rules.map(rule => showAlert(rule, targetShown)) }
      },
    },
    {
      method: 'POST',
      path: '/v1/alerts',
      access: 'key',
      scope: 'manage',
      isReport: true,
      doc: {
        operationId: 'createAlert',
        summary: 'Be told of something',
        tag: 'Alerts',
        body: alertRequest,
        response: json(createdAlert, 'The rule, with the secret of its webhooks.'),
      },
      async handle({ caller, request, reply }) {
        const { rule, secret } = await alerts.add(
          caller,
          parseAlertRequest(await receiveBody(new NodeRequest(request.raw), deps.bodyLimitBytes)),
        )
        reply.header('cache-control', 'no-store')
        return { ...showAlert(rule, 'whole'), secret }
      },
    },
    {
      method: 'DELETE',
      path: '/v1/alerts/:id',
      access: 'key',
      scope: 'manage',
      isReport: true,
      doc: {
        operationId: 'deleteAlert',
        summary: 'Be told no more',
        tag: 'Alerts',
        openapiPath: '/v1/alerts/{id}',
        errors: ['not_found'],
        response: json(deletedAlert, 'The rule is gone, and what it did not deliver yet.'),
      },
      async handle(context) {
        const { ruleId } = await alerts.remove(context.caller, idOf(context))
        return { id: ruleId, object: 'alert', deleted: true }
      },
    },
    {
      method: 'POST',
      path: '/v1/alerts/:id/test',
      access: 'key',
      scope: 'manage',
      isReport: true,
      doc: {
        operationId: 'testAlert',
        summary: 'Send a test alert',
        tag: 'Alerts',
        openapiPath: '/v1/alerts/{id}/test',
        errors: ['not_found'],
        response: json(testedAlert, 'It is on its way; the deliveries tell how it went.'),
      },
      async handle(context) {
        const id = idOf(context)
        return { id, alert_id: await alerts.test(context.caller, id) }
      },
    },
    {
      method: 'GET',
      path: '/v1/alerts/:id/deliveries',
      access: 'key',
      isReport: true,
      doc: {
        operationId: 'listAlertDeliveries',
        summary: 'What a rule told, and how that went',
        tag: 'Alerts',
        openapiPath: '/v1/alerts/{id}/deliveries',
        errors: ['not_found'],
        response: json(alertDeliveries, 'The last 50 alerts, newest first.'),
      },
      handle: async context => showDeliveries(await alerts.history(context.caller, idOf(context))),
    },
  ]
}

function idOf({ request }: EndpointContext): string {
  return (request.params as { id: string }).id
}
