import { plural, t } from '@lingui/core/macro'
import { PasswordInput, Select, Textarea, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useState } from 'react'
import type { ServedModels, WrittenProvider } from '#api/operator/providers.ts'
import { fromGateway } from '../../api/gateway-link.ts'
import { providerPresetsQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'

import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import { choicesOf, type ModelChoice, soldEntry } from './model-entries.ts'
import styles from './operator.module.css'

const ModelChoices = lazy(fromGateway(async () => ({ default: (await import('./ModelChoices.tsx')).ModelChoices })))

/** Adds a provider: which server, its key, then its models with their prices, each tried before it is sold. */
export function AddProviderDialog({ onClose }: { onClose: () => void }) {
  const presets = useQuery(providerPresetsQuery)
  const [presetId, setPresetId] = useState<string | null>(null)
  const [name, setName] = useState('')
  const [baseUrl, setBaseUrl] = useState('')
  const [key, setKey] = useState('')
  const [percent, setPercent] = useState(100)
  const [choices, setChoices] = useState<readonly ModelChoice[] | null>(null)
  const preset = presets.data?.data.find(({ id }) => id === presetId)
  const secretName = preset?.secrets[0] ?? 'api_key'
  // Capitals in the address of a preset stand for what the operator knows.
  const blank = String(preset?.settings.base_url)
    .match(/[A-Z]{2,}/g)
    ?.find(word => baseUrl.includes(word))
  const settings = { ...preset?.settings, name: name.trim(), base_url: baseUrl.trim() }
  const secrets = key.trim() === '' ? {} : { [secretName]: key.trim() }
  const ask = useWrite<void, ServedModels>(
    () => ({ method: 'POST', path: 'operator/provider-models', body: { settings, secrets } }),
    { areas: [], onDone: ({ data }) => setChoices(choicesOf(data ?? [], percent)), showsError: true },
  )
  const chosen = choices?.filter(({ isChosen }) => isChosen) ?? []
  const add = useWrite<void, WrittenProvider>(
    () => ({
      method: 'POST',
      path: 'operator/providers',
      body: { settings: { ...settings, models: chosen.map(soldEntry) }, secrets, reason: t`Added in the console.` },
    }),
    { areas: ['supply', 'overview', 'log'], done: t`${name} is live.`, onDone: onClose, showsError: true },
  )
  if (choices !== null) {
    return (
      <FormDialog
        title={t`Models of ${name}`}
        size="xl"
        action={
          chosen.length === 0
            ? t`Add the provider`
            : t`Sell ${plural(chosen.length, { one: '# model', other: '# models' })}`
        }
        isDisabled={chosen.length === 0}
        sending={add}
        back={{ label: t`Back`, onClick: () => setChoices(null) }}
        onSubmit={() => add.mutate()}
        onClose={onClose}
      >
        {choices.length === 0 && (
          <p>{t`This server does not list its models. Enter the ids of those that you sell.`}</p>
        )}
        <Suspense>
          <ModelChoices
            choices={choices}
            percent={percent}
            order={{ settings, secrets }}
            onChange={setChoices}
            onPercent={setPercent}
          />
        </Suspense>
      </FormDialog>
    )
  }
  return (
    <FormDialog
      title={t`Add a provider`}
      action={t`Ask for its models`}
      isDisabled={preset === undefined}
      sending={ask}
      onSubmit={() => ask.mutate()}
      onClose={onClose}
    >
      <Select
        label={t`Provider`}
        required
        searchable
        data={presets.data?.data.map(({ id, title }) => ({ value: id, label: title })) ?? []}
        value={presetId}
        onChange={id => {
          const chosenPreset = presets.data?.data.find(each => each.id === id)
          setPresetId(id)
          setName(chosenPreset?.id ?? '')
          setBaseUrl(String(chosenPreset?.settings.base_url ?? ''))
        }}
        data-autofocus
      />
      {preset !== undefined && (
        <>
          <Field name="settings.name">
            <TextInput
              label={t`Name`}
              description={t`Lower-case letters, digits, - _ and . It stands on receipts and in reports, and cannot be changed later.`}
              required
              value={name}
              onChange={event => setName(event.currentTarget.value)}
            />
          </Field>
          <Field name="settings.base_url">
            <TextInput
              label={t`Address`}
              {...(blank !== undefined && { description: t`Replace ${blank}.` })}
              ref={element => element?.setCustomValidity(blank === undefined ? '' : t`Replace ${blank}.`)}
              required
              value={baseUrl}
              onChange={event => setBaseUrl(event.currentTarget.value)}
            />
          </Field>
          {secretName === 'google_service_account' ? (
            <Field name="secrets.google_service_account">
              <Textarea
                label={t`Key of a service account, as JSON`}
                autosize
                minRows={3}
                maxRows={8}
                value={key}
                onChange={event => setKey(event.currentTarget.value)}
              />
            </Field>
          ) : (
            <Field name="secrets.api_key">
              <PasswordInput
                label={t`Key`}
                description={preset.settings.kind === 'local' ? t`Leave it empty if the server needs none.` : undefined}
                autoComplete="off"
                value={key}
                onChange={event => setKey(event.currentTarget.value)}
              />
            </Field>
          )}
          <p
            className={styles.hint}
          >{t`The key is stored encrypted, is never shown again, and goes to this address only.`}</p>
        </>
      )}
    </FormDialog>
  )
}
