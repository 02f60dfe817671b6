import { parse } from 'yaml'
import { readPage } from '../docs/page.ts'

/** An expression of PromQL in deploy/, and the alert or panel that has it. */
export interface Expression {
  readonly where: string
  readonly expression: string
}

interface Rules {
  readonly groups: readonly { readonly rules: readonly { readonly alert: string; readonly expr: string }[] }[]
}

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[]
}

/** The expressions of the alerts and of the dashboard. */
export function expressions(): readonly Expression[] {
  const rules: Rules = parse(readPage('deploy/prometheus/rules.yaml'))
  const { panels }: Dashboard = JSON.parse(readPage('deploy/grafana/switchyard.json'))
  return [
    ...rules.groups.flatMap(({ rules }) => rules.map(({ alert, expr }) => ({ where: alert, expression: expr }))),
    ...panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }) => ({ where: `panel ${title}`, expression: expr })),
    ),
  ]
}
