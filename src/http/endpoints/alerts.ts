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
import { uncounted } from '../../runtime/byte-budget.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../receive-body.ts'

/** The endpoints of alert rules, under /v1/alerts. */
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
        summary: 'List alerts',
        tag: 'Alerts',
        response: json(alertList, 'The alert rules, oldest first.'),
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
        summary: 'Create an alert',
        tag: 'Alerts',
        body: alertRequest,
        response: json(createdAlert, 'The alert rule, with the secret that signs its webhooks.'),
      },
      async handle({ caller, request, reply }) {
        const { rule, secret } = await alerts.add(
          caller,
          parseAlertRequest(await receiveBody(new NodeRequest(request.raw), deps.bodyLimitBytes, uncounted)),
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
        summary: 'Delete an alert',
        tag: 'Alerts',
        openapiPath: '/v1/alerts/{id}',
        errors: ['not_found'],
        response: json(deletedAlert, 'The alert rule and its undelivered alerts were deleted.'),
      },
      async handle(context) {
        const { ruleId } = await alerts.remove(context.caller, ruleIdParam(context))
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
        response: json(testedAlert, 'The test alert is queued. The deliveries of the rule show its result.'),
      },
      async handle(context) {
        const id = ruleIdParam(context)
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
        summary: 'List alert deliveries',
        tag: 'Alerts',
        openapiPath: '/v1/alerts/{id}/deliveries',
        errors: ['not_found'],
        response: json(alertDeliveries, 'The last 50 alerts of the rule and their delivery status, newest first.'),
      },
      handle: async context => showDeliveries(await alerts.history(context.caller, ruleIdParam(context))),
    },
  ]
}

function ruleIdParam({ request }: EndpointContext): string {
  return (request.params as { id: string }).id
}
