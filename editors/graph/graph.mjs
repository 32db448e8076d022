// Graphs of workflows as pictures: reads a workflow's JSON, lays its nodes out in layers from top to bottom, and draws them as SVG. A plain
// module without imports or state, for the VS Code extension and for web pages.

const NODE_HEIGHT = 44;
const GAP = 28;
const LAYER_GAP = 40;
const MARGIN = 16;
/** Width of a character of a label, on average, and what stands beside a label. */
const CHARACTER = 7.4;
const PADDING = 26;
const LABEL_MAX = 36;
/** Passes over the layers, each of which brings nodes nearer to their neighbours. */
const SWEEPS = 8;
/** Most places of edges that cross layers; edges beyond are straight lines. */
const BENDS_MAX = 20_000;

const isList = Array.isArray;
const shorten = (text) => (text.length > LABEL_MAX ? `${text.slice(0, LABEL_MAX - 1)}…` : text);

/**
 * The graph in a parsed workflow file, which is a graph of rules (`@type`, `from`, `to`) or a GoRules decision (`type`, `sourceId`, `targetId`).
 * Nothing if it is neither. Parts that make no sense are left out; `forebay check` names them.
 */
export const graphOf = (document) => {
  if (!isList(document?.nodes) || !isList(document.edges)) return undefined;
  const nodes = document.nodes.filter((node) => node?.id !== undefined).map((node) => {
    const kind = String(node['@type'] ?? node.type ?? '').replace(/Node$/, '');
    const what = node.logical ?? node.join ?? node.ruleId ?? node.workflow ?? node.operation ?? node.url ?? node.content?.key ?? node.content?.kind;
    return { id: String(node.id), kind: kind + (typeof what === 'string' && node.name ? ` ${what}` : ''), label: String(node.name ?? what ?? node.id) };
  });
  const statements = new Map(document.nodes.flatMap((node) => (isList(node?.content?.statements) ? node.content.statements.map(({ id, condition }) => [id, condition]) : [])));
  const edges = document.edges.map((edge) => ({
    from: String(edge?.from ?? edge?.sourceId),
    to: String(edge?.to ?? edge?.targetId),
    label: String(edge?.case ?? statements.get(edge?.sourceHandle) ?? ''),
  }));
  return { nodes, edges };
};

/** Numbers nearest to `wanted` (least squares) of which each is at least the one before: the pool adjacent violators algorithm. */
const ascending = (wanted) => {
  const blocks = [];
  for (const value of wanted) {
    blocks.push({ sum: value, count: 1 });
    for (let last = blocks.length - 1; last > 0 && blocks[last - 1].sum / blocks[last - 1].count > blocks[last].sum / blocks[last].count; last -= 1) {
      const { sum, count } = blocks.pop();
      blocks[last - 1].sum += sum;
      blocks[last - 1].count += count;
    }
  }
  return blocks.flatMap(({ sum, count }) => Array(count).fill(sum / count));
};

/** The edges that close a cycle, found by a search in depth from the nodes that nothing leads to, then from the others. */
const closingEdges = (nodes, edges) => {
  const after = new Map(nodes.map(({ id }) => [id, []]));
  for (const edge of edges) after.get(edge.from).push(edge);
  const entered = new Set(edges.map(({ to }) => to));
  const closing = new Set();
  const state = new Map();
  for (const { id } of [...nodes.filter((node) => !entered.has(node.id)), ...nodes]) {
    if (state.has(id)) continue;
    const open = [{ id, next: 0 }];
    state.set(id, 'open');
    while (open.length > 0) {
      const top = open[open.length - 1];
      const edge = after.get(top.id)[top.next++];
      if (!edge) state.set(open.pop().id, 'done');
      else if (state.get(edge.to) === 'open') closing.add(edge);
      else if (!state.has(edge.to)) {
        state.set(edge.to, 'open');
        open.push({ id: edge.to, next: 0 });
      }
    }
  }
  return closing;
};

/** Sets `layer` of each: one more than the lowest before it. */
const setLayers = (places, links) => {
  const waits = new Map(places.map((place) => [place, 0]));
  const after = new Map(places.map((place) => [place, []]));
  for (const [above, below] of links) {
    waits.set(below, waits.get(below) + 1);
    after.get(above).push(below);
  }
  const ready = places.filter((place) => waits.get(place) === 0);
  for (const place of ready) {
    for (const below of after.get(place)) {
      below.layer = Math.max(below.layer, place.layer + 1);
      waits.set(below, waits.get(below) - 1);
      if (waits.get(below) === 0) ready.push(below);
    }
  }
};

/**
 * Places a graph of `nodes` ({ id, label, kind; width and height if they are known }) and `edges` ({ from, to }).
 * Returns `{ width, height, nodes: [{ id, x, y, width, height }], edges: [{ from, to, points: [[x, y], ...] }] }` in pixels: x and y are a node's upper left
 * corner, points run from the source to the target. The order of nodes and edges is that of the input; of nodes with one id only the first is
 * placed, and edges that name no node are left out. Edges against the direction, which close a cycle, lead upwards.
 */
export const layout = (graph) => {
  const byId = new Map();
  for (const node of graph.nodes) {
    const letters = Math.max(...[node.label, node.kind].map((text) => shorten(text ?? node.id).length));
    if (!byId.has(node.id)) byId.set(node.id, { id: node.id, width: node.width ?? Math.ceil(letters * CHARACTER) + PADDING, height: node.height ?? NODE_HEIGHT, layer: 0, near: [[], []] });
  }
  const places = [...byId.values()];
  const edges = graph.edges.filter(({ from, to }) => byId.has(from) && byId.has(to));
  const straight = edges.filter(({ from, to }) => from !== to);
  const closing = closingEdges(places, straight);
  const ends = (edge) => (closing.has(edge) ? [byId.get(edge.to), byId.get(edge.from)] : [byId.get(edge.from), byId.get(edge.to)]);
  setLayers(places, straight.map(ends));

  // An edge that crosses layers has a place in each of them, so that it goes around nodes.
  const layers = Array.from({ length: 1 + Math.max(0, ...places.map(({ layer }) => layer)) }, () => []);
  for (const place of places) layers[place.layer].push(place);
  const ways = new Map();
  let bends = 0;
  for (const edge of straight) {
    const [above, below] = ends(edge);
    const way = [above];
    for (let layer = above.layer + 1; layer < below.layer && bends < BENDS_MAX; layer += 1, bends += 1) {
      const bend = { width: 0, height: 0, layer, near: [[], []] };
      layers[layer].push(bend);
      way.push(bend);
    }
    way.push(below);
    for (let at = 1; at < way.length; at += 1) {
      way[at].near[0].push(way[at - 1]);
      way[at - 1].near[1].push(way[at]);
    }
    ways.set(edge, closing.has(edge) ? [...way].reverse() : way);
  }

  // Each node is drawn to the middle of its neighbours: first to order a layer, then to space it.
  for (const layer of layers) layer.forEach((place, at) => (place.center = at));
  const wish = ({ near, center }, side) => (near[side].length === 0 ? center : near[side].reduce((sum, other) => sum + other.center, 0) / near[side].length);
  const sweep = (arrange) => {
    for (let pass = 0; pass < SWEEPS; pass += 1) {
      const down = pass % 2 === 0;
      for (const layer of down ? layers : [...layers].reverse()) arrange(layer, layer.map((place) => wish(place, down ? 0 : 1)));
    }
  };
  sweep((layer, wishes) => {
    const order = layer.map((place, at) => [wishes[at], place]).sort(([one], [other]) => one - other);
    order.forEach(([, place], at) => (layer[at] = place));
    layer.forEach((place, at) => (place.center = at));
  });
  const space = (layer, wishes) => {
    let offset = 0;
    const offsets = layer.map(({ width }, at) => (offset += at === 0 ? 0 : (layer[at - 1].width + width) / 2 + GAP));
    ascending(wishes.map((value, at) => value - offsets[at])).forEach((value, at) => (layer[at].center = value + offsets[at]));
  };
  for (const layer of layers) space(layer, layer.map(() => 0));
  sweep(space);

  const left = Math.min(...places.map(({ center, width }) => center - width / 2)) - MARGIN;
  let y = MARGIN;
  for (const layer of layers) {
    const height = Math.max(0, ...layer.map((place) => place.height));
    for (const place of layer) {
      place.x = place.center - left;
      place.y = y + (height - place.height) / 2;
    }
    y += height + LAYER_GAP;
  }
  const round = (number) => Math.round(number * 10) / 10;
  const point = (x, at) => [round(x), round(at)];
  const points = (edge) => {
    const way = ways.get(edge);
    if (!way) {
      const { x, y: top, width, height } = byId.get(edge.from);
      return [point(x + width / 2, top + height / 3), point(x + width / 2 + GAP / 2, top + height / 2), point(x + width / 2, top + (height * 2) / 3)];
    }
    const up = closing.has(edge);
    return way.map(({ x, y: top, height }, at) => {
      if (at === 0) return point(x, up ? top : top + height);
      return point(x, at < way.length - 1 || up ? top + height : top);
    });
  };
  return {
    width: round(Math.max(0, ...layers.flat().map((place) => place.x + place.width / 2)) + MARGIN),
    height: round(y - LAYER_GAP + MARGIN),
    nodes: places.map(({ id, x, y: top, width, height }) => ({ id, x: round(x - width / 2), y: round(top), width, height })),
    edges: edges.map((edge) => ({ from: edge.from, to: edge.to, points: points(edge) })),
  };
};

const escape = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);

/** A line through points that leaves and reaches them vertically. */
const curve = ([first, ...rest]) => {
  let [x, y] = first;
  return rest.reduce((path, [toX, toY]) => {
    const middle = (y + toY) / 2;
    const step = toX === x ? `V${toY}` : `C${x} ${middle} ${toX} ${middle} ${toX} ${toY}`;
    [x, y] = [toX, toY];
    return path + step;
  }, `M${x} ${y}`);
};

/**
 * Draws a graph (as of `graphOf`) as SVG. `problems` ({ ID: { severity, message } }) are marked on their nodes. Colours are up to the page: edges
 * have the class `edge`, nodes `node` and, with a problem, its severity; `data-id` is a node's id.
 */
export const draw = (graph, problems = {}) => {
  const placed = layout(graph);
  const byId = new Map(graph.nodes.map((node) => [node.id, node]).reverse());
  const labels = new Map(graph.edges.map(({ from, to, label }) => [`${from}\n${to}`, label]));
  const edges = placed.edges.map(({ from, to, points }) => {
    const label = labels.get(`${from}\n${to}`);
    const [x, y] = points[points.length - 1];
    const [beforeX, beforeY] = points[points.length - 2];
    const text = label ? `<text x="${(x + beforeX) / 2}" y="${(y + beforeY) / 2}">${escape(shorten(label))}</text>` : '';
    return `<g class="edge"><path d="${curve(points)}" marker-end="url(#arrow)"/>${text}</g>`;
  });
  const nodes = placed.nodes.map(({ id, x, y, width, height }) => {
    const { label, kind } = byId.get(id);
    const problem = Object.hasOwn(problems, id) ? problems[id] : undefined;
    const about = escape(problem ? `${problem.severity}: ${problem.message}` : `${kind} ${id}`);
    return `<g class="node ${problem?.severity ?? ''}" data-id="${escape(id)}" tabindex="0" role="button" aria-label="${escape(label)}, ${about}" transform="translate(${x} ${y})"><title>${about}</title><rect width="${width}" height="${height}" rx="6"/><text x="${width / 2}" y="19">${escape(shorten(label))}</text> <text class="kind" x="${width / 2}" y="35">${escape(shorten(kind))}</text></g>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${placed.width}" height="${placed.height}" viewBox="0 0 ${placed.width} ${placed.height}" role="group"><defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>${edges.join('')}${nodes.join('')}</svg>`;
};
