import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { Alerts } from '../../money/alerts/alerts.ts'
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
} from '../../wire/api/alerts.ts'
import { actingOf } from '../acting-of.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

const pathParameters = z.object({
  id: z.string().meta({ description: 'UUID of the alert rule.', examples: ['0d2f9e0c-4b4a-4f0e-9f52-6f2f7f3b8a11'] }),
})

/** The endpoints of alert rules, under /v1/alerts. */
export function alertEndpoints(deps: {
  alerts: Alerts
  bodyLimitBytes: number
  /** The address of the client, as proxies report it. */
  addressOf: (request: FastifyRequest) => string
}): Endpoint[] {
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
        description:
          'Lists the alert rules of the customer. A key without the scope `manage` sees only the scheme and host of webhook URLs.',
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
      // A webhook or a mail tells its receiver what the customer spends.
      needsConfirmation: true,
      doc: {
        operationId: 'createAlert',
        summary: 'Create an alert',
        description:
          'Creates a rule that sends a webhook or a mail. Only this response contains the secret that signs the webhooks. A customer has at most 20 rules. Requires a key with the scope `manage`.',
        tag: 'Alerts',
        body: alertRequest,
        response: json(createdAlert, 'The alert rule, with the secret that signs its webhooks.'),
      },
      async handle(context) {
        const { caller, request } = context
        const order = parseAlertRequest(await receiveBody(new NodeRequest(request.raw), deps.bodyLimitBytes, uncounted))
        const { rule, secret } = await alerts.add(caller, order, actingOf(deps, context))
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
        description:
          'Deletes a rule, and its alerts that were not delivered yet. Requires a key with the scope `manage`.',
        tag: 'Alerts',
        openapiPath: '/v1/alerts/{id}',
        pathParameters,
        errors: ['not_found'],
        response: json(deletedAlert, 'The alert rule and its undelivered alerts were deleted.'),
      },
      async handle(context) {
        const { ruleId } = await alerts.remove(context.caller, ruleIdParam(context), actingOf(deps, context))
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
        description:
          'Queues a test alert for the target of the rule. A customer can send ten within an hour. Requires a key with the scope `manage`.',
        tag: 'Alerts',
        openapiPath: '/v1/alerts/{id}/test',
        pathParameters,
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
        description: 'Shows the last 50 alerts of a rule, each with its delivery attempts and their results.',
        tag: 'Alerts',
        openapiPath: '/v1/alerts/{id}/deliveries',
        pathParameters,
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
