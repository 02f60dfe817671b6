import { t } from '@lingui/core/macro'
import { Button, JsonInput, NativeSelect, PasswordInput, Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { ServedModels, WrittenProvider } from '#api/operator/providers.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import { State } from '../../parts/State.tsx'
import { ModelChoices } from './ModelChoices.tsx'
import {
  choicesOfEntries,
  type Entry,
  entriesOf,
  type ModelChoice,
  newChoices,
  type ShownProvider,
  soldEntry,
} from './model-entries.ts'
import styles from './operator.module.css'
import { ReasonInput } from './ReasonInput.tsx'

interface DialogProps {
  readonly provider: ShownProvider
  readonly onClose: () => void
}

/** Writes the next version of a provider. */
function useChange({ provider: { name, version }, onClose }: DialogProps) {
  return useWrite<{ settings: Entry; secrets?: Entry; reason: string }, WrittenProvider>(
    ({ settings, secrets, reason }) => ({
      method: 'PUT',
      path: `operator/providers/${name}`,
      body: { version, settings, ...(secrets && { secrets }), reason },
    }),
    {
      areas: ['supply', 'overview', 'log'],
      done: answer => t`Version ${answer.version} of ${name} is live.`,
      onDone: onClose,
      showsError: true,
    },
  )
}

/** Changes which models a provider sells, and for how much. */
export function ProviderModelsDialog(props: DialogProps) {
  const { provider, onClose } = props
  const settings = provider.settings ?? {}
  const { models: _, ...server } = settings
  const [percent, setPercent] = useState(100)
  const [choices, setChoices] = useState<readonly ModelChoice[]>(() => [
    ...choicesOfEntries(entriesOf(settings)),
    ...choicesOfEntries(provider.proposed_models.map(({ entry }) => entry)).map(each => ({ ...each, isChosen: false })),
  ])
  const [reason, setReason] = useState('')
  const served = useWrite<void, ServedModels>(
    () => ({
      method: 'POST',
      path: 'operator/provider-models',
      body: { name: provider.name, settings: server },
    }),
    {
      areas: [],
      onDone: ({ data }) => setChoices([...choices, ...newChoices(choices, data ?? [], percent)]),
      showsError: true,
    },
  )
  const chosen = choices.filter(({ isChosen }) => isChosen)
  const change = useChange(props)
  return (
    <FormDialog
      title={t`Models and prices of ${provider.name}`}
      size="xl"
      action={t`Save`}
      isDisabled={chosen.length === 0}
      sending={change}
      onSubmit={() => change.mutate({ settings: { ...settings, models: chosen.map(soldEntry) }, reason })}
      onClose={onClose}
    >
      <div className={styles.buttons}>
        <Button
          variant="default"
          loading={served.isPending}
          onClick={() => served.mutate()}
        >{t`Ask the server for its models`}</Button>
        {served.error !== null && <State state="warn">{served.error.message}</State>}
      </div>
      <ModelChoices
        choices={choices}
        percent={percent}
        order={{ name: provider.name, settings: server }}
        onChange={setChoices}
        onPercent={setPercent}
      />
      <p
        className={styles.hint}
      >{t`New requests have these prices. Running requests keep the ones they began with.`}</p>
      <ReasonInput value={reason} onChange={setReason} />
    </FormDialog>
  )
}

/** Replaces the key of a provider. Running requests keep the old one. */
export function ProviderKeyDialog(props: DialogProps) {
  const { provider, onClose } = props
  const [key, setKey] = useState('')
  const [reason, setReason] = useState('')
  const change = useChange(props)
  const secretName = provider.secrets.includes('google_service_account') ? 'google_service_account' : 'api_key'
  const field = {
    label: t`New key`,
    required: true,
    value: key,
    onChange: (event: { currentTarget: { value: string } }) => setKey(event.currentTarget.value),
  }
  return (
    <FormDialog
      title={t`Replace the key of ${provider.name}`}
      action={t`Replace`}
      sending={change}
      onSubmit={() =>
        change.mutate({ settings: provider.settings ?? {}, secrets: { [secretName]: key.trim() }, reason })
      }
      onClose={onClose}
    >
      <Field name={`secrets.${secretName}`}>
        {secretName === 'google_service_account' ? (
          <Textarea autosize minRows={3} maxRows={8} {...field} />
        ) : (
          <PasswordInput autoComplete="off" {...field} />
        )}
      </Field>
      <p
        className={styles.hint}
      >{t`New requests use it on all nodes within a second. Running requests end with the old one, so revoke that at the provider a little later.`}</p>
      <ReasonInput value={reason} onChange={setReason} />
    </FormDialog>
  )
}

/** Changes which new models of a provider are sold, and for how much. */
export function ProviderRulesDialog(props: DialogProps) {
  const { provider, onClose } = props
  const { model_rules: before, ...others } = provider.settings ?? {}
  const [first = {}, ...further] = Array.isArray(before) ? (before as Entry[]) : []
  const [match, setMatch] = useState(String(first.match ?? ''))
  const [except, setExcept] = useState(Array.isArray(first.except) ? first.except.join(' ') : '')
  const [percent, setPercent] = useState(String(first.price_percent ?? '120'))
  const [action, setAction] = useState(String(first.action ?? 'propose'))
  const [reason, setReason] = useState('')
  const change = useChange(props)
  const rule = {
    ...first,
    ...{ match: match.trim(), except: except.split(/\s+/).filter(Boolean), price_percent: percent.trim(), action },
  }
  const rules = match.trim() === '' ? further : [rule, ...further]
  const settings = { ...others, ...(rules.length > 0 && { model_rules: rules }) }
  return (
    <FormDialog
      title={t`New models of ${provider.name}`}
      action={t`Save`}
      sending={change}
      onSubmit={() => change.mutate({ settings, reason })}
      onClose={onClose}
    >
      <Field name="settings.model_rules[0].match">
        <TextInput
          label={t`Models`}
          description={t`* stands for any text: openai/*. The server is asked every hour. Empty: no rule.`}
          value={match}
          onChange={event => setMatch(event.currentTarget.value)}
        />
      </Field>
      <Field name="settings.model_rules[0].except">
        <TextInput
          label={t`Except`}
          description={t`Patterns, separated by blanks: *-preview *-beta`}
          value={except}
          onChange={event => setExcept(event.currentTarget.value)}
        />
      </Field>
      <Field name="settings.model_rules[0].price_percent">
        <TextInput
          label={t`Price, percent of the list price`}
          description={t`A model without a known list price is never sold.`}
          inputMode="numeric"
          required
          value={percent}
          onChange={event => setPercent(event.currentTarget.value)}
        />
      </Field>
      <Field name="settings.model_rules[0].action">
        <NativeSelect
          label={t`A new model`}
          value={action}
          onChange={event => setAction(event.currentTarget.value)}
          data={[
            { value: 'propose', label: t`is proposed here` },
            { value: 'apply', label: t`is sold at once` },
          ]}
        />
      </Field>
      {further.length > 0 && <p className={styles.hint}>{t`Further rules are under “Settings”.`}</p>}
      <ReasonInput value={reason} onChange={setReason} />
    </FormDialog>
  )
}

/** Changes how much may be spent at a provider, and how many requests it gets. */
export function ProviderBudgetDialog(props: DialogProps) {
  const { provider, onClose } = props
  const { monthly_budget_usd: budgetBefore, weight: weightBefore, ...others } = provider.settings ?? {}
  const [budget, setBudget] = useState(String(budgetBefore ?? ''))
  const [weight, setWeight] = useState(String(weightBefore ?? ''))
  const [reason, setReason] = useState('')
  const change = useChange(props)
  const settings = {
    ...others,
    ...(budget.trim() !== '' && { monthly_budget_usd: readAmount(budget) }),
    ...(weight.trim() !== '' && { weight: weight.trim() }),
  }
  return (
    <FormDialog
      title={t`Budget and weight of ${provider.name}`}
      action={t`Save`}
      sending={change}
      onSubmit={() => change.mutate({ settings, reason })}
      onClose={onClose}
    >
      <Field name="settings.monthly_budget_usd">
        <AmountField
          label={t`Budget of a month, USD`}
          description={t`What the provider may cost you. Beyond it, no request goes there until the next month (UTC). Empty: no limit.`}
          value={budget}
          onText={setBudget}
        />
      </Field>
      <Field name="settings.weight">
        <TextInput
          label={t`Weight`}
          description={t`Its chance among servers that are as good. 200 doubles it, 50 halves it. Empty: 100.`}
          inputMode="numeric"
          value={weight}
          onChange={event => setWeight(event.currentTarget.value)}
        />
      </Field>
      <ReasonInput value={reason} onChange={setReason} />
    </FormDialog>
  )
}

/** Changes any setting of a provider, as an entry of `endpoints` in JSON. */
export function ProviderSettingsDialog(props: DialogProps) {
  const { provider, onClose } = props
  const [text, setText] = useState(JSON.stringify(provider.settings, null, 2))
  const [reason, setReason] = useState('')
  const settings = readObject(text)
  const change = useChange(props)
  return (
    <FormDialog
      title={t`Settings of ${provider.name}`}
      size="xl"
      action={t`Save`}
      isDisabled={settings === undefined}
      sending={change}
      onSubmit={() => settings && change.mutate({ settings, reason })}
      onClose={onClose}
    >
      <Field name="settings">
        <JsonInput
          label={t`An entry of endpoints, as in switchyard.yaml`}
          description={t`Without keys: those are replaced by themselves. The gateway checks each setting before it is saved.`}
          validationError={t`This is not JSON.`}
          autosize
          minRows={12}
          maxRows={24}
          value={text}
          onChange={setText}
        />
      </Field>
      <ReasonInput value={reason} onChange={setReason} />
    </FormDialog>
  )
}

function readObject(text: string): Entry | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Entry) : undefined
  } catch {
    return undefined
  }
}
