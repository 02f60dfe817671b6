import type { LinkProps } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import {
  ActivityIcon,
  CheckIcon,
  CreditIcon,
  HomeIcon,
  KeyIcon,
  ModelsIcon,
  PeopleIcon,
  PlaygroundIcon,
  ServerIcon,
  SettingsIcon,
  UsageIcon,
} from '../parts/icons.tsx'

export interface NavItem {
  readonly name: string
  readonly icon: ReactNode
  /** The parameters of the address are those of the current page. */
  readonly to: NonNullable<LinkProps['to']>
  /** The link is marked as current at this address only, not at addresses below it. */
  readonly isExact?: true
}

export const customerItems: readonly NavItem[] = [
  { name: 'Home', icon: <HomeIcon />, to: '/c/$customerId', isExact: true },
  { name: 'Activity', icon: <ActivityIcon />, to: '/c/$customerId/activity' },
  { name: 'Usage', icon: <UsageIcon />, to: '/c/$customerId/usage' },
  { name: 'Keys', icon: <KeyIcon />, to: '/c/$customerId/keys' },
  { name: 'Credits', icon: <CreditIcon />, to: '/c/$customerId/credits' },
  { name: 'Models', icon: <ModelsIcon />, to: '/c/$customerId/models' },
  { name: 'Playground', icon: <PlaygroundIcon />, to: '/c/$customerId/playground' },
  { name: 'Settings', icon: <SettingsIcon />, to: '/c/$customerId/settings' },
]

export const hosterItems: readonly NavItem[] = [
  { name: 'Overview', icon: <HomeIcon />, to: '/h/$hosterId', isExact: true },
  { name: 'Offers', icon: <ModelsIcon />, to: '/h/$hosterId/offers' },
  { name: 'Traffic', icon: <ActivityIcon />, to: '/h/$hosterId/traffic' },
  { name: 'Trust', icon: <CheckIcon />, to: '/h/$hosterId/trust' },
  { name: 'Earnings', icon: <CreditIcon />, to: '/h/$hosterId/earnings' },
  { name: 'Connect', icon: <ServerIcon />, to: '/h/$hosterId/connect' },
  { name: 'Settings', icon: <SettingsIcon />, to: '/h/$hosterId/settings' },
]

export const operatorItems: readonly NavItem[] = [
  { name: 'Overview', icon: <HomeIcon />, to: '/operator', isExact: true },
  { name: 'Customers', icon: <PeopleIcon />, to: '/operator/customers' },
  { name: 'Usage', icon: <UsageIcon />, to: '/operator/usage' },
  { name: 'Requests', icon: <ActivityIcon />, to: '/operator/requests' },
  { name: 'Money', icon: <CreditIcon />, to: '/operator/money' },
  { name: 'Prices', icon: <CreditIcon />, to: '/operator/prices' },
  { name: 'Providers', icon: <ServerIcon />, to: '/operator/providers' },
  { name: 'Models', icon: <ModelsIcon />, to: '/operator/models' },
  { name: 'Hosters', icon: <ServerIcon />, to: '/operator/hosters' },
  { name: 'Grants', icon: <CheckIcon />, to: '/operator/grants' },
  { name: 'People', icon: <PeopleIcon />, to: '/operator/people' },
  { name: 'Log', icon: <ActivityIcon />, to: '/operator/log' },
  { name: 'Settings', icon: <SettingsIcon />, to: '/operator/settings' },
  { name: 'System', icon: <ServerIcon />, to: '/operator/system' },
]

/** The pages of people themselves, whether or not they are members of a customer. */
export const accountItems: readonly NavItem[] = [
  { name: 'Start', icon: <HomeIcon />, to: '/', isExact: true },
  { name: 'Your account', icon: <SettingsIcon />, to: '/account' },
  { name: 'Become a hoster', icon: <ServerIcon />, to: '/h/apply' },
]
